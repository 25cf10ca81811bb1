# albert.mg - ALBERT (Lan and others, 2020): all layers have the same parameters, and the table of tokens is narrower than what layers
# compute on.
dim layers = 3, hidden = 16, heads = 2, head = 8, ffn = 32, narrow = 8
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-6)
}

block layer(x[hidden]) {
    wq   : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk   : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv   : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo   : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    up   : param[hidden, ffn]         ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden]         ~ normal(0.3) as "down.weight" [hidden, ffn]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    a = attention(q, k, x @ wv over hidden, along seq, over head, causal) @ wo over (heads, head)
    h = norm(x + a) as "ln1"
    return norm(h + gelu_tanh(h @ up over hidden) @ down over ffn) as "ln2"
}

model albert(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, narrow]  ~ normal(0.3) as "embed.weight"
    widen : param[narrow, hidden] ~ normal(0.3) as "widen.weight" [hidden, narrow]
    every : block layer
    x = embed[tokens] @ widen over narrow
    repeat layers {
        x = every(x)
    }
    loss = cross_entropy(x @ widen over hidden @ embed over narrow, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
