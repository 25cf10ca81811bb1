# RUN: %mgc %s --device=h100 --check 2>&1 | FileCheck %s
# RUN: %mgc %s --device=h100 --precision f64 --check 2>&1 | FileCheck %s --check-prefix=F64
# RUN: %mgc %s --device=h100 -D head=24 --check 2>&1 | FileCheck %s --check-prefix=TILES
# RUN: %mgc %s --device=h100 --precision tf32 --check 2>&1 | FileCheck %s --check-prefix=TILES
# RUN: %mgc %s --device=cpu2t --precision f64 --check 2>&1 | FileCheck %s --check-prefix=TILES
# RUN: not %mgc %s --device=h100 -D head=264 --check 2>&1 | FileCheck %s --check-prefix=LONG
# RUN: %mgc %s --device=cpu2t -D head=264 --check 2>&1 | FileCheck %s --check-prefix=TILES
#
# Attention that takes the slow kernels of a GPU warns, with what it takes of the step.
# CHECK: attention_rows.mg:[[#]]:{{[0-9]+}}: warning[MG0554]: attention takes kernels without tiles: {{.*}} ms, {{.*}}% of the step; the head of halves is no multiple of 8
# F64: warning[MG0554]: {{.*}}; its numbers are f64
# TILES-NOT: MG055
# LONG: attention_rows.mg:[[#]]:{{[0-9]+}}: error[MG0555]: a head of 264 is not built on a GPU; the limit is 256
dim seq = 256, hidden = 40, heads = 2, head = 20, vocab = 8, batch = 4

model rows(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden]       ~ normal(0.1) as "embed"
    wq    : param[hidden, heads, head] ~ normal(0.1) as "wq"
    wk    : param[hidden, heads, head] ~ normal(0.1) as "wk"
    wv    : param[hidden, heads, head] ~ normal(0.1) as "wv"
    wo    : param[heads, head, hidden] ~ normal(0.1) as "wo"
    x = embed[tokens]
    q = x @ wq over hidden
    k = x @ wk over hidden
    v = x @ wv over hidden
    y = attention(q, k, v, along seq, over head, causal) @ wo over (heads, head)
    loss = cross_entropy(y @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 1e-2)
}
