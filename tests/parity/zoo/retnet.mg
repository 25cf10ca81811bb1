# retnet.mg - retention (Sun and others: RetNet, 2023) in its recurrent form: a state of each head fades at the head's own rate and
# takes in key times value; what the query reads is normed, and gated.
dim layers = 2, hidden = 16, heads = 4, head = 4, value = 4, ffn = 16
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block retain(x[hidden]) {
    wq : param[hidden, heads, head]  ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head]  ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, value] ~ normal(0.3) as "v.weight" [(heads value), hidden]
    wg : param[hidden, heads, value] ~ normal(0.3) as "g.weight" [(heads value), hidden]
    wo : param[heads, value, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads value)]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head) / sqrt(head)
    v = x @ wv over hidden
    fade = 1 - pow(2, -(2 + index(heads)))
    state = expand(0, over (batch, heads, head, value))
    scan seq {
        state = fade * state + k * v
        y = q @ state over head
    }
    return (silu(x @ wg over hidden) * layernorm(y, 1, 0, over value, eps = 1e-3)) @ wo over (heads, value)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return gelu(x @ up over hidden) @ down over ffn
}

model retnet(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + retain(norm(x) as "ln1") as "ret"
        x = x + mlp(norm(x) as "ln2") as "mlp"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
    chunk      4
}
