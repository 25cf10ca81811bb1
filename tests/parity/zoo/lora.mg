# lora.mg - low-rank adaptation (Hu and others, 2021): the model itself stays as it is, and products beside its queries and values learn.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 16, low = 2
dim vocab = 32, seq = 8, batch = 4
const strength = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block adapted(x[hidden]) {
    w : param[hidden, heads, head] ~ normal(0.3) as "base.weight" [(heads head), hidden]
    a : param[hidden, low]         ~ normal(0.3) as "lora_A.weight" [low, hidden]
    b : param[low, heads, head]    = 0 as "lora_B.weight" [(heads head), low]
    return x @ w over hidden + strength / low * (x @ a over hidden @ b over low)
}

block attend(x[hidden]) {
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.base.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.base.weight" [hidden, (heads head)]
    q = rope(adapted(x) as "q", along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    v = adapted(x) as "v"
    return attention(q, k, v, along seq, over head, causal) @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.base.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.base.weight" [hidden, ffn]
    return silu(x @ up over hidden) @ down over ffn
}

model lora(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.base.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1.base") as "attn"
        x = x + mlp(norm(x) as "ln2.base") as "mlp"
    }
    loss = cross_entropy((norm(x) as "norm.base") @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    frozen    where "*.base.weight"
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
