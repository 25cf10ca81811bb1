# Attention of one sequence that is written out, with a sink, and attention to another sequence, with a bias in one layer
# and by the operation in the next: the proof holds on one rank, over heads, and where queries are split.
# RUN: %mgc %s --check
# RUN: %mgc %s -D cp=2 -D tp=2 -D dp=2 --check
# RUN: %mgc %s -D cp=4 -D tp=2 --device h100 --check
# RUN: %mgc %s --emit=c | FileCheck %s --check-prefix=ONE
# ONE: mg_attention(
# ONE: .queries = 64, .keys = 48,
# RUN: %mgc %s -D cp=4 --print-after=local | FileCheck %s --check-prefix=SPLIT
# SPLIT: = attention {{.*}}along=seq=16, {{.*}}keys=source=48}
dim layers = 2, hidden = 32, heads = 2, group = 2, head = 8
dim vocab = 256, seq = 64, source = 48, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block own(x[hidden]) {
    dim key = seq
    wq : param[hidden, heads, group, head] ~ normal(0.1) as "q.weight"
    wk : param[hidden, heads, head]        ~ normal(0.1) as "k.weight"
    wv : param[hidden, heads, head]        ~ normal(0.1) as "v.weight"
    wo : param[heads, group, head, hidden] ~ normal(0.1) as "o.weight"
    sink : param[heads, group] ~ normal(1) as "sink"
    s = ((x @ wq over hidden) / sqrt(head)) @ (x @ wk over hidden)[seq -> key] over head
    top = max(max(s, over key), sink)
    e = exp(select(index(key) <= index(seq), s, -1e9) - top)
    p = e / (sum(e, over key) + exp(sink - top))
    return p @ (x @ wv over hidden)[seq -> key] over key @ wo over (heads, group, head)
}

block across(x[hidden], memory[source, hidden], near) {
    wq : param[hidden, heads, group, head] ~ normal(0.1) as "q.weight"
    wk : param[hidden, heads, head]        ~ normal(0.1) as "k.weight"
    wv : param[hidden, heads, head]        ~ normal(0.1) as "v.weight"
    wo : param[heads, group, head, hidden] ~ normal(0.1) as "o.weight"
    q = x @ wq over hidden
    k = memory @ wk over hidden
    v = memory @ wv over hidden
    a = attention(q, k, v, along seq, along source, over head, cap = 20)
    b = attention(q, k, v, along seq, along source, over head, bias = near)
    return (a + b) @ wo over (heads, group, head)
}

model two(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed.weight"
    fold  : param[seq, source]   ~ normal(0.1) as "fold"
    near  : param[heads, source] ~ normal(0.1) as "near"
    x = embed[tokens]
    memory = x @ fold over seq
    repeat layers as "layers.{}" {
        x = x + own(norm(x) as "ln1") as "own"
        x = x + across(norm(x) as "ln2", memory, near) as "across"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8)
    lr        1e-3
}

layout {
    device cpu
    mesh   dp = 1, cp = 1, tp = 1
    batch        -> dp
    heads, vocab -> tp
    seq          -> cp
    microbatch 2
}
