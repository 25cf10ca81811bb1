# RUN: %mgc %models/llama7b.mg --layout node8 --plan | FileCheck %s --check-prefixes=ALL,TP4
# RUN: %mgc %models/llama7b.mg --layout node8_zero3 --plan | FileCheck %s --check-prefixes=ALL,ZERO3
# RUN: %mgc %models/llama7b.mg --layout node8_tp8 --plan | FileCheck %s --check-prefixes=ALL,TP8
# RUN: %mgc explain %models/llama7b.mg layers.mlp.gate --layout node8 | FileCheck %s --check-prefix=WHY
#
# The layouts of the 7 B model for eight devices fit, and hold of the 25.1 GiB of parameters and of the optimizer's 50.2
# GiB each an eighth. Beside it is the copy in bf16, of 12.3 GiB: with ZeRO 1 a quarter, else an eighth.
# ALL: device h100, 8 ranks
# ALL: memory       {{[1-6][0-9](\.[0-9])?}} GiB of 79.1 GiB
# TP4-NEXT: params 6.28 GiB
# TP4-NEXT: grads 6.28 GiB
# ZERO3-NEXT: params 4.68 GiB
# ZERO3-NEXT: grads 3.14 GiB
# TP8-NEXT: params 4.68 GiB
# TP8-NEXT: grads 3.14 GiB
# ALL-NEXT: optimizer 6.28 GiB
# ALL: CUDA context                   592 MiB, beside the arena
# ALL: communicators of NCCL {{.*}}, beside the arena
# ALL: live bound {{.*}} arena over it 0.
# ALL: communication of a step: {{.*}} while nothing else runs
# TP4: tp all_gather
# ZERO3: dp all_gather
# TP8: tp all_gather
# ALL: what a rank has of each parameter, and the rules that split it
# TP4: q_proj.weight 256 MiB [layers=32, hidden=2048, kv_heads=8, group=1, head=128] hidden on dp (state, line 63), kv_heads on tp (kv_heads, line 53)
# TP4-NEXT: its copy in bf16 256 MiB [layers=32, hidden=4096, kv_heads=8, group=1, head=128] kv_heads on tp (kv_heads, line 53)
# ZERO3: q_proj.weight 256 MiB {{.*}} hidden on dp (state,
# ALL: model.norm.weight {{.*}} {{whole|hidden on dp}}
#
# The part of a tensor that a rank has, and the rule that decided it.
# WHY: buffer exp_avg.layers.mlp.gate, optimizer state
# WHY: of a rank f32[layers=32, hidden=2048, ffn=2752], 688 MiB
# WHY-NEXT: split hidden on dp, by the rule for state, {{.*}}llama7b.mg:63:5
# WHY-NEXT: split ffn on tp, by the rule for ffn, {{.*}}llama7b.mg:53:15
