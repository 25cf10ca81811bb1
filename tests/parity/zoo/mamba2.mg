# mamba2.mg - Mamba 2 (Dao, Gu, 2024): a state of each head that fades as the input says; a causal convolution of each channel over the last four positions comes first, a gated norm last.
dim layers = 2, hidden = 16, heads = 4, inner = 4, state = 4, tap = 4
dim vocab = 32, seq = 8, batch = 4

block conv(x[seq], w[tap]) {
    return sum(x[seq - tap] * w, over tap)
}

block mixer(x[hidden]) {
    gain : param[hidden]               = 1 as "norm.weight"
    wx   : param[hidden, heads, inner] ~ normal(0.3) as "x.weight" [(heads inner), hidden]
    wz   : param[hidden, heads, inner] ~ normal(0.3) as "z.weight" [(heads inner), hidden]
    wb   : param[hidden, state]        ~ normal(0.3) as "b.weight" [state, hidden]
    wc   : param[hidden, state]        ~ normal(0.3) as "c.weight" [state, hidden]
    wd   : param[hidden, heads]        ~ normal(0.3) as "dt.weight" [heads, hidden]
    bd   : param[heads]                = log(exp(exp(uniform(log(0.001), log(0.1)))) - 1) as "dt.bias"
    rate : param[heads]                = log(uniform(1, 16)) as "A_log.bias"
    skip : param[heads]                = 1 as "D.weight"
    cw   : param[heads, inner, tap]    ~ normal(0.3) as "conv.weight" [(heads inner), tap]
    cb   : param[heads, inner]         = 0 as "conv.bias" [(heads inner)]
    out  : param[heads, inner]         = 1 as "gate_norm.weight" [(heads inner)]
    wo   : param[heads, inner, hidden] ~ normal(0.3) as "out.weight" [hidden, (heads inner)]
    n = rmsnorm(x, gain, over hidden, eps = 1e-5)
    u = silu(conv(n @ wx over hidden, cw) + cb)
    r = n @ wd over hidden + bd
    dt = log(1 + exp(-abs(r))) + max(r, 0)
    b = n @ wb over hidden
    c = n @ wc over hidden
    h = expand(0, over (batch, heads, inner, state))
    scan seq {
        h = exp(-exp(rate) * dt) * h + dt * u * b
        read = c @ h over state
    }
    y = read + u * skip
    g = y * silu(n @ wz over hidden)
    return (g * rsqrt(mean(g * g, over (heads, inner)) + 1e-5) * out) @ wo over (heads, inner)
}

model mamba2(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    gain  : param[hidden]        = 1 as "norm.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + mixer(x)
    }
    loss = cross_entropy(rmsnorm(x, gain, over hidden, eps = 1e-5) @ embed over hidden, next(tokens))
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
