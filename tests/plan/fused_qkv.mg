# fused_qkv.mg - one product makes queries, keys and values, as ranges of its heads: queries are grouped, and a block
# of the layer with and one without rotary positions. Attention's gradients are parts of the product's gradient.
dim layers = 2, hidden = 8, all = 8, kv = 2, group = 2, queries = 4, head = 4
dim vocab = 16, seq = 4, batch = 4

block product(x[hidden]) {
    gain : param[hidden]            = 1
    w    : param[hidden, all, head] ~ normal(0.2)
    return rmsnorm(x, gain, over hidden, eps = 1e-5) @ w over hidden
}

block plain(x[hidden]) {
    wo : param[kv, group, head, hidden] ~ normal(0.4)
    y = product(x)
    q = y[all = 0 .. 4 -> queries][queries -> (kv, group)]
    return attention(q, y[all = 4 .. 6 -> kv], y[all = 6 .. 8 -> kv], along seq, over head, causal) @ wo over (kv, group, head)
}

block turned(x[hidden]) {
    wo : param[kv, group, head, hidden] ~ normal(0.4)
    y = product(x)
    q = rope(y[all = 0 .. 4 -> queries][queries -> (kv, group)], along seq, over head)
    k = rope(y[all = 4 .. 6 -> kv], along seq, over head)
    return attention(q, k, y[all = 6 .. 8 -> kv], along seq, over head, causal) @ wo over (kv, group, head)
}

model fused(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    x = embed[tokens]
    repeat layers as "h.{}" {
        x = x + plain(x) as "plain"
        x = x + turned(x) as "turned"
    }
    unembed : param[vocab, hidden] ~ normal(0.5)
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    device     cpu
    microbatch 2
}
