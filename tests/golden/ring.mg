# RUN: %mgc %s -D cp=4 --print-after=shard > %t.shard
# RUN: FileCheck %s --check-prefix=SHARD < %t.shard
# RUN: %mgc %s -D cp=4 --print-after=local > %t.local
# RUN: FileCheck %s --check-prefix=LOCAL < %t.local
# RUN: %mgc --from=%t.shard --print-after=local | diff %t.local -
# RUN: %mgc %s -D cp=4 --print-after=fuse > %t.fuse
# RUN: %mgc --from=%t.local --print-after=fuse | diff %t.fuse -
# RUN: %mgc %s -D cp=4 -D seq=64 --emit=c | tr -d '\\*' | wc -w > %t.four
# RUN: %mgc %s -D cp=16 -D seq=64 --emit=c | tr -d '\\*' | wc -w | diff %t.four -
# RUN: %mgc %s -D cp=4 --emit=c | FileCheck %s --check-prefix=C
# RUN: %mgc %s -D cp=4 --plan | FileCheck %s --check-prefix=PLAN
# RUN: %mgc %s -D cp=4 --device h200 --precision bf16 --schedule | FileCheck %s --check-prefix=GPU
# RUN: %mgc explain %s -D cp=4 spot | FileCheck %s --check-prefix=EXPLAIN
# RUN: not %mgc %s -D cp=3 --check 2>&1 | FileCheck %s --check-prefix=THREE
# RUN: not %mgc %s -D cp=4 -D seq=12 --check 2>&1 | FileCheck %s --check-prefix=ODD
# RUN: not %mgc %s -D cp=2 -D tp=2 -D seq=6 --check 2>&1 | FileCheck %s --check-prefix=BOTH
# RUN: not %mgc %s --layout batches --check 2>&1 | FileCheck %s --check-prefix=BATCH
# RUN: not %mgc %s --layout class --check 2>&1 | FileCheck %s --check-prefix=CLASS
# RUN: not %mgc %s --layout several --check 2>&1 | FileCheck %s --check-prefix=SEVERAL
#
# Queries, keys and values lie alike along the sequence, in zigzag order: a ring. Its text does not grow with it.
# SHARD: rule seq on cp zigzag
# SHARD: tensor "spot" f32[seq=4@cp~, hidden=16]
# SHARD: fn @train
# SHARD: [[T:%.*]]: i32[batch=2, seq=4@cp~](vocab) = shard %{{.*}} {dim=seq=16, axes=cp, zigzag}
# SHARD: attention %{{.*}} {over=[head=8], along=seq=4@cp~, scale={{.*}}, causal=yes}
# SHARD: attention_grad %{{.*}} {over=[head=8], along=seq=4@cp~, scale={{.*}}, causal=yes}
# LOCAL: fn @train
# LOCAL: [[K1:%.*]]: f32[{{.*}}] = ring_shift %[[K:[a-z0-9.]*]] {axes=cp}
# LOCAL-NEXT: [[V1:%.*]]: f32[{{.*}}] = ring_shift %[[V:[a-z0-9.]*]] {axes=cp}
# LOCAL: attention %[[Q:[a-z0-9.]*]], %[[K]], %[[V]] {over=[head=8], along=seq=4, {{.*}}causal=yes}
# LOCAL: repeat [[K1]], [[V1]], {{.*}}%place {dim=ring.iteration=2, carried=5
# LOCAL-NEXT: arg %[[K2:.*]]: f32
# LOCAL-NEXT: arg %[[V2:.*]]: f32
# LOCAL: ring_shift %[[K2]] {axes=cp}
# LOCAL-NEXT: f32[{{.*}}] = ring_shift %[[V2]] {axes=cp}
# LOCAL: attention %[[Q]], %[[K2]], %[[V2]], %{{.*}} {over=[head=8], along=seq=4, {{.*}}causal=no, share=0.5}
# LOCAL: attention %[[Q]], %repeat, %repeat.1, %{{.*}} {over=[head=8], along=seq=4, {{.*}}causal=no, share=0.5}
# LOCAL-COUNT-2: ring_shift
# LOCAL: attention_grad
# LOCAL-COUNT-2: ring_shift
# LOCAL: attention_grad
# LOCAL: repeat {{.*}} {dim=ring.iteration=1, carried=6
# LOCAL-COUNT-4: ring_shift
# LOCAL: attention_grad
# LOCAL-COUNT-4: ring_shift
# C: mg_attention_part(r
# C: mg_attention_part_grad(r
# C-NEXT: (const int32_t *){{.*}}, NULL);
# C: .kind = MG_RING_SHIFT
# GPU: attention_grad attention_grad {{.*}} =attention_grad =attention_grad =attention_grad +delta
# GPU: attention_grad attention_grad_2 {{.*}} =attention_grad =attention_grad =attention_grad add{{[_0-9]*}} +delta
# PLAN: cp         ring_shift         18 times      9 KiB {{.*}} B / n, n = 4
# EXPLAIN: seq on cp in zigzag order, by the rule for seq
# THREE: error[MG0332]: 'seq' of 16 is not split evenly on cp, which is 3 ranks, each with two parts in zigzag order
# THREE: help: -D cp=2
# THREE: help: -D cp=4
# THREE: help: -D seq=18
# ODD: error[MG0332]: 'seq' of 12 is not split evenly on cp, which is 4 ranks, each with two parts in zigzag order
# ODD: help: -D cp=3
# ODD: help: -D cp=6
# ODD: help: -D seq=16
# BOTH: error[MG0332]: 'seq' of 6 is not split evenly on cp, tp, which is 4 ranks
# BOTH: help: -D cp=1
# BOTH: help: -D cp=3
# BOTH: help: -D seq=8
# BATCH: error[MG0340]: 'batch' is split in zigzag order, and no attention runs along it
# BATCH: help: batch -> cp, without it
# CLASS: error[MG0340]: 'state' is split in zigzag order, and no attention runs along it
# CLASS: help: state -> cp, without it
# SEVERAL: error[MG0340]: 'heads' is split in zigzag order, and no attention runs along it
# SEVERAL: help: heads -> cp, without it
dim hidden = 16, heads = 2, head = 8, vocab = 8, seq = 16, batch = 2

model ring(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden]       ~ normal(0.1) as "embed"
    spot  : param[seq, hidden]         ~ normal(0.1)
    wq    : param[hidden, heads, head] ~ normal(0.1)
    wk    : param[hidden, heads, head] ~ normal(0.1)
    wv    : param[hidden, heads, head] ~ normal(0.1)
    wo    : param[heads, head, hidden] ~ normal(0.1)
    x = embed[tokens] + spot
    y = attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head, causal)
    loss = cross_entropy((x + y @ wo over (heads, head)) @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
}

layout {
    device cpu
    mesh   dp = 1, cp = 1, tp = 1
    seq -> cp (zigzag), tp
    microbatch 2
}

layout batches {
    device cpu
    mesh   cp = 2
    batch -> cp (zigzag)
    microbatch 1
}

layout class {
    device cpu
    mesh   cp = 2
    seq   -> cp (zigzag)
    state -> cp (zigzag)
    microbatch 2
}

layout several {
    device cpu
    mesh   cp = 2
    heads, seq -> cp (zigzag)
    microbatch 2
}
