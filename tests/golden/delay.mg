# RUN: %mgc %models/llama_mini.mg --layout %S/Inputs/dp2.mg --device %S/Inputs/slow.json --precision f32 -D layers=6 -D hidden=384 -D kv_heads=2 -D group=3 -D head=64 -D ffn=1536 -D seq=256 -D batch=8 --schedule > %t.schedule
# RUN: FileCheck %s < %t.schedule
# RUN: %mgc %models/llama_mini.mg --layout %S/Inputs/dp2.mg --device %S/Inputs/slow.json --precision f32 -D layers=6 -D hidden=384 -D kv_heads=2 -D group=3 -D head=64 -D ffn=1536 -D seq=256 -D batch=8 --overlap=none --schedule | FileCheck %s --check-prefix=NONE
# RUN: %mgc %models/llama_mini.mg --layout %S/Inputs/dp2.mg --device %S/Inputs/slow.json --precision f32 -D layers=6 -D hidden=384 -D kv_heads=2 -D group=3 -D head=64 -D ffn=1536 -D seq=256 -D batch=8 --print-after=prefetch_gathers > %t.mgir
# RUN: %mgc --from=%t.mgir --device %S/Inputs/slow.json --schedule | diff - %t.schedule
#
# Gradients of the weights that an iteration of the backward pass ends with are made, and sent, before what the next iteration
# needs: the norm that they are products of is computed by a kernel of its own, not by the one of the norm's gradient,
# which waits for all the others. (On processors the next iteration goes on beside them anyway: queue.mg.)
# CHECK: loop layers x 6 reverse
# CHECK: attention_grad
# CHECK: s0 kernel layers.input_layernorm.mul
# CHECK: s{{[01]}} product layers.self_attn.dw_4
# CHECK: s0 product layers.self_attn.wq.dx
# CHECK: s2 communication layers.self_attn.dot_4
# CHECK: s0 kernel layers.input_layernorm.add
# CHECK: end
#
# NONE: loop layers x 6 reverse
# NONE: s0 product layers.self_attn.wq.dx
# NONE: s0 kernel layers.input_layernorm.rsqrt
# NONE-NOT: s0 kernel layers.input_layernorm.mul
# NONE: end
