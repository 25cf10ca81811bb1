# RUN: sed 's/"memory": [0-9]*/"memory": 42000000000/' %models/../compiler/devices/h200.json > %t.json
# RUN: %mgc %models/llama7b.mg --layout node8_zero3 --device %t.json --precision bf16 --schedule | FileCheck %s
# RUN: %mgc %models/llama7b.mg --layout node8_zero3 --device %t.json --precision bf16 --print-after=prefetch_gathers > %t.mgir
# RUN: FileCheck %s --check-prefix=IR < %t.mgir
# RUN: %mgc --from=%t.mgir --schedule > %t.rest
# RUN: %mgc %models/llama7b.mg --layout node8_zero3 --device %t.json --precision bf16 --schedule | diff - %t.rest
# RUN: %mgc --from=%t.mgir --print-after=fuse > %t.fuse
# RUN: %mgc --from=%t.fuse --schedule | diff - %t.rest
# RUN: %mgc %models/llama7b.mg --layout node8_zero3 --device %t.json --precision bf16 --plan | FileCheck %s --check-prefix=PLAN
# RUN: %mgc %models/llama7b.mg --layout node8_zero3 --device cpu2t -D batch=64 --schedule | FileCheck %s --check-prefix=ONE
# RUN: %mgc %models/llama7b.mg --layout node8_zero3 --device h200 --precision bf16 --plan | FileCheck %s --check-prefix=ROOM
#
# With parameters in eighths an iteration of the layers gathers its own while it computes, and what the next one begins with
# as soon as it has used its own; the last iteration gathers nothing for the next.
# CHECK: loop micro x 64
# CHECK: communication layers.self_attn.wq {{.*}} | rounded.layers.self_attn.wq =wq
# CHECK: loop layers x 31
# CHECK: s2 communication layers.self_attn.wk {{.*}} | rounded.layers.self_attn.wk[layers*4194304] =layers.self_attn.wk{{$}}
# CHECK: s0 product layers.self_attn.dot {{.*}} | {{.*}}mul{{.*}} wq ={{.*}}dot
# CHECK: s2 communication layers.self_attn.wq_2 {{.*}} | rounded.layers.self_attn.wq+4194304[layers*4194304] =wq
# CHECK: s0 product layers.mlp.dot_3 {{.*}} | after
# CHECK: end
# CHECK: loop layers x 1
# CHECK-NOT: =wq
# CHECK: end
#
# An iteration of the backward part makes the gradient of `down` first, and gathers `down` beside that.
# CHECK: loop layers x 32 reverse
# CHECK-NEXT: s2 communication {{dot.*|layers.mlp.down.*}} | rounded.layers.mlp.down{{.*}}
#
# Where there is room the backward part reads what the forward part has gathered.
# ROOM: layers 0..31 keep all halves that are read, and what is gathered
#
# IR: layout "node8_zero3" device "h200" microbatch 1 recompute auto overlap
# IR: [[W:%wq[.0-9]*]]: bf16[hidden=4096, {{.*}} = all_gather %wq
# IR: = window %wq{{.*}} {along=layers=31, at=1}
# IR: {{%x[.0-9]*}}: bf16[batch=1, seq=4096, hidden=4096], {{.*}} = repeat {{.*}}[[W]], {{.*}}layers=31
#
# As many gathers as without, and as much is sent.
# PLAN: predicted 20{{[.0-9]*}} s, {{.*}} MFU 5{{.*}}
# PLAN-NEXT: microbatch {{.*}} forward, {{.*}} backward; 64 microbatches, and {{.*}} outside of them
# PLAN-NEXT: the mesh bubble 0.0%; a rank that computes a tenth slower makes it {{[89][.0-9]*}}% longer; waits for dp {{[0-9.]+}}%
# PLAN: comm {{.*}} MiB
# PLAN: communication of a step: a rank sends 2.73 TiB in {{[0-9.]+}} s, {{.*}} ms of it while nothing else runs
# PLAN-NEXT: dp all_gather 37056 times 1.36 TiB {{[0-9.]+}} s {{[0-9.]*}} ms (n - 1) / n B, n = 8
#
# On processors nothing runs beside anything.
# ONE-NOT: s2
# ONE: loop layers x 32
# ONE-NOT: s2
# ONE: exposed
