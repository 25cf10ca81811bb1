# RUN: %mgc %models/llama_mini.mg --layout %S/Inputs/dp2.mg --device %S/Inputs/hosts.json -D layers=6 -D hidden=384 -D kv_heads=2 -D group=3 -D head=64 -D ffn=1536 -D seq=256 -D batch=4 --schedule | FileCheck %s
# RUN: %mgc %models/llama_mini.mg --layout %S/Inputs/dp2.mg --device %S/Inputs/hosts.json -D layers=6 -D hidden=384 -D kv_heads=2 -D group=3 -D head=64 -D ffn=1536 -D seq=256 -D batch=4 --emit=c -o - | FileCheck %s --check-prefix=C
#
# On processors collectives are a queue that no loop waits for. What is sent in an iteration is waited for in the next one, by
# who writes it again; what is sent before a loop is waited for behind it, and what reads it goes there. Behind the loop what
# was sent first is read first.
# CHECK: s2 communication dot_2 {{.*}} | grad.head =unembed
# CHECK-NOT: after
# CHECK: loop layers x 6 reverse
# CHECK-NOT: unembed.sum
# CHECK: s0 product layers.mlp.dw {{.*}} | after [[#DOWN:]]
# CHECK-NEXT: [[#DOWN]] s2 communication layers.mlp.dot
# CHECK: s0 product layers.self_attn.dw_4 {{.*}} | after [[#WQ:]]
# CHECK-NEXT: [[#WQ]] s2 communication layers.self_attn.dot_4
# CHECK-NOT: after
# CHECK: end
# CHECK: s0 kernel unembed.sum
# CHECK: s0 kernel layers.mlp.down.sum {{.*}} | after [[#DOWN]]
# CHECK: s0 kernel layers.mlp.up.sum {{.*}} | after
# CHECK: s0 kernel layers.self_attn.wv.sum {{.*}} | after
# CHECK: s0 kernel layers.self_attn.wq.sum {{.*}} | after [[#WQ]]
# CHECK: s0 guard
#
# C: mg_wait(r, [[#POINT:]]);
# C: mg_stream(r, 2);
# C-NEXT: mg_comm(
# C-NEXT: mg_record(r, [[#POINT]]);
# C-NEXT: mg_stream(r, 0);
