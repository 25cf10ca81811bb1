# RUN: %mgc %s -D cp=2 --device cpu2t --print-after=shard > %t.shard
# RUN: FileCheck %s --check-prefix=SHARD < %t.shard
# RUN: %mgc %s -D cp=2 --device cpu2t --print-after=local > %t.local
# RUN: FileCheck %s --check-prefix=LOCAL < %t.local
# RUN: %mgc --from=%t.shard --print-after=local | diff %t.local -
# RUN: %mgc %s -D cp=2 -D tp=2 --device cpu2t --print-after=shard > %t.both
# RUN: FileCheck %s --check-prefix=BOTH < %t.both
# RUN: %mgc %s -D cp=2 -D tp=2 --device cpu2t --print-after=local > %t.local
# RUN: %mgc --from=%t.both --print-after=local | diff %t.local -
# RUN: %mgc %s --layout open -D seq=4096 --device h200 --plan | FileCheck %s --check-prefix=OPEN
# RUN: %mgc %s --layout open -D seq=4096 --device h200 --plan=json | FileCheck %s --check-prefix=JSON
# RUN: %mgc %s --layout open -D seq=4096 --device h200 --overlap=none --plan | FileCheck %s --check-prefix=OPEN
# RUN: %mgc %s --layout open -D seq=32 -D head=64 -D group=32 --device cpu2t --plan | FileCheck %s --check-prefix=QUERIES
# RUN: %mgc %s --layout open -D seq=4096 --device h200 --print-after=shard > %t.open
# RUN: FileCheck %s --check-prefix=CHOSEN < %t.open
# RUN: %mgc %s --layout open -D kv_heads=3 --device cpu2t --plan | FileCheck %s --check-prefix=NONE
# RUN: %mgc %s --layout ring --device cpu2t --plan | FileCheck %s --check-prefix=RING
# RUN: %mgc %s --layout groups --device cpu2t --print-after=shard | FileCheck %s --check-prefix=GROUPS
# RUN: not %mgc %s -D cp=2 -D kv_heads=3 --check 2>&1 | FileCheck %s --check-prefix=THREE
# RUN: not %mgc %s -D cp=4 -D tp=2 --check 2>&1 | FileCheck %s --check-prefix=FEW
# RUN: not %mgc %s --layout outer --check 2>&1 | FileCheck %s --check-prefix=OUTER
# RUN: not %mgc %s --layout other --check 2>&1 | FileCheck %s --check-prefix=OTHER
# RUN: not %mgc %s --layout class --check 2>&1 | FileCheck %s --check-prefix=CLASS
# RUN: sed 's/along seq, over head, causal)/along seq, along key, over head, bias = far)/; s/q, k, v, along/q, k[seq -> key], v[seq -> key], along/; s/seq = 16, batch = 4/seq = 16, batch = 4, key = seq/; s/^    x = embed\[tokens\]/    far = index(seq) - index(key)\n    x = embed[tokens]/' %s > %t.biased.mg
# RUN: not %mgc %t.biased.mg -D cp=2 --check 2>&1 | FileCheck %s --check-prefix=BIASED
#
# What attention reads changes places where it is made, and is kept so; its result comes back.
# SHARD: rule seq on cp heads
# SHARD: fn @train
# SHARD: [[Q:%.*]]: f32[batch=4, seq=16, kv_heads=2@cp, group=2, head=8] = all_to_all %{{.*}} {dim=seq=8@cp, to=kv_heads=4, axes=cp}
# SHARD: [[K:%.*]]: f32[batch=4, seq=16, kv_heads=2@cp, head=8] = all_to_all
# SHARD: [[V:%.*]]: f32[batch=4, seq=16, kv_heads=2@cp, head=8] = all_to_all
# SHARD: attention [[Q]], [[K]], [[V]] {over=[head=8], along=seq=16,
# SHARD: f32[batch=4, seq=8@cp, kv_heads=4, group=2, head=8] = all_to_all {{.*}} {dim=kv_heads=2@cp, to=seq=16, axes=cp}
# SHARD: attention_grad [[Q]], [[K]], [[V]], {{.*}} along=seq=16,
# LOCAL: fn @train
# LOCAL-NOT: ring_shift
# LOCAL: all_to_all %{{.*}} {dim=seq=8, to=kv_heads=4, axes=cp}
#
# The mesh has cp before tp, and heads are on tp already: a rank of cp has a part of these.
# BOTH: fn @train
# BOTH: f32[batch=4, seq=16, kv_heads=1@tp.cp, group=2, head=8] = all_to_all %{{.*}} {dim=seq=8@cp, to=kv_heads=2@tp, axes=cp}
#
# The faster is taken by its price, and both prices are said.
# OPEN: context      seq: heads are exchanged on cp, by plans {{.*}}s a step; a ring: {{.*}}s a step
# JSON: "context": [
# JSON: "attention": "heads",
# JSON: "ring_ms":
# JSON: "heads_ms":
# QUERIES: context      seq: keys go round cp, by plans {{.*}}s a step; an exchange of heads: {{.*}}s a step
# CHOSEN: rule seq on cp heads
# NONE-NOT: context
# RING: context      seq: keys go round cp
# RING-NOT: by plans
#
# Groups of ranks exchange heads, and keys go round from group to group.
# GROUPS: attention {{.*}}along=seq=8@cp~,
#
# THREE: heads.mg:[[@LINE+38]]:5: error[MG0347]: heads are to be split on 'cp', which is 2 ranks, and there are 'kv_heads' of 3
# THREE: note: the attention along 'seq'
# THREE: help: a ring: seq -> cp (ring)
# THREE: help: -D cp=1
# FEW: error[MG0347]: heads are to be split on 'cp', which is 4 ranks, and there are 'kv_heads' of 2 on a rank
# FEW: help: -D cp=2
# OUTER: error[MG0347]: heads are exchanged on the last of the axes that split 'seq', in its order, and 'cp' is not that
# OTHER: error[MG0347]: heads are to be exchanged for parts of 'ffn', and no attention runs along it
# OTHER: help: ffn -> cp, without it
# BIASED: error[MG0347]: heads are to be exchanged for parts of 'seq', and no attention runs along it, but what has all keys on each rank, for a bias or of another sequence
# CLASS: error[MG0347]: heads are to be exchanged for parts of 'state', and no attention runs along it
dim hidden = 16, kv_heads = 4, group = 2, head = 8, ffn = 32, vocab = 32, seq = 16, batch = 4

model heads(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden]                  ~ normal(0.02)
    wq    : param[hidden, kv_heads, group, head]  ~ normal(0.02)
    wk    : param[hidden, kv_heads, head]         ~ normal(0.02)
    wv    : param[hidden, kv_heads, head]         ~ normal(0.02)
    wo    : param[kv_heads, group, head, hidden]  ~ normal(0.02)
    up    : param[hidden, ffn]                    ~ normal(0.02)
    down  : param[ffn, hidden]                    ~ normal(0.02)
    x = embed[tokens]
    q = x @ wq over hidden
    k = x @ wk over hidden
    v = x @ wv over hidden
    x = x + attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
    x = x + tanh(x @ up over hidden) @ down over ffn
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw()
    lr        constant(peak = 1e-3)
}

layout {
    mesh cp = 1, tp = 1
    kv_heads, ffn -> tp
    seq -> cp (heads)
}

layout open {
    mesh cp = 2
    seq -> cp
}

layout ring {
    mesh cp = 2
    seq -> cp (ring, zigzag)
}

layout groups {
    mesh cp = 2, again = 2
    seq -> cp (ring, zigzag), again (heads)
}

layout outer {
    mesh cp = 2, again = 2
    seq -> cp (heads), again (ring)
}

layout other {
    mesh cp = 2
    ffn -> cp (heads)
}

layout class {
    mesh cp = 2
    seq   -> cp
    state -> cp (heads)
}
