# falcon.mg - Falcon (Almazrouei and others, 2023): attention and MLP side by side, both of one norm; all heads share one key and one
# value.
dim layers = 2, hidden = 16, heads = 4, head = 4, ffn = 32
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, head]        ~ normal(0.3) as "k.weight" [head, hidden]
    wv : param[hidden, head]        ~ normal(0.3) as "v.weight" [head, hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    return attention(q, k, x @ wv over hidden, along seq, over head, causal) @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return gelu(x @ up over hidden) @ down over ffn
}

model falcon(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        h = norm(x) as "ln"
        x = x + attend(h) as "attn" + mlp(h) as "mlp"
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
}
