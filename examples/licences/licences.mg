# licences.mg - gated linear attention (Yang and others, 2024) on bytes: a layer's memory is a matrix for each head, whose rows fade
# by gates of their own, however long the text is.
dim layers = 3, hidden = 128, heads = 4, key = 16, value = 32, ffn = 256
dim vocab = 256, seq = 128, batch = 32

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block remember(x[hidden]) {
    wq   : param[hidden, heads, key]   ~ normal(0.05) as "q.weight" [(heads key), hidden]
    wk   : param[hidden, heads, key]   ~ normal(0.05) as "k.weight" [(heads key), hidden]
    wv   : param[hidden, heads, value] ~ normal(0.05) as "v.weight" [(heads value), hidden]
    wf   : param[hidden, heads, key]   ~ normal(0.05) as "forget.weight" [(heads key), hidden]
    bf   : param[heads, key]           = 2 as "forget.bias" [(heads key)]
    wg   : param[hidden, heads, value] ~ normal(0.05) as "gate.weight" [(heads value), hidden]
    gain : param[value]                = 1 as "norm.weight"
    wo   : param[heads, value, hidden] ~ normal(0.02) as "o.weight" [hidden, (heads value)]
    near = x + x[seq - 1]
    q = near @ wq over hidden / sqrt(key)
    k = near @ wk over hidden
    v = x @ wv over hidden
    keep = pow(sigmoid(x @ wf over hidden + bf), 0.25)
    state = expand(0, over (batch, heads, key, value))
    scan seq {
        state = keep * state + k * v
        read = q @ state over key
    }
    return (rmsnorm(read, gain, over value, eps = 1e-5) * silu(x @ wg over hidden)) @ wo over (heads, value)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.05) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02) as "down.weight" [hidden, ffn]
    return gelu_tanh(x @ up over hidden) @ down over ffn
}

model licences(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.05) as "embed.weight"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        x = x + remember(norm(x) as "norm1") as "memory"
        x = x + mlp(norm(x) as "norm2") as "mlp"
    }
    head : param[vocab, hidden] ~ normal(0.05) as "head.weight"
    loss = cross_entropy((norm(x) as "norm") @ head over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), decay = 0.1 where rank >= 2)
    lr        cosine(peak = 4e-3, warmup = 30, steps = 300, floor = 3e-4)
    clip      1.0
}
