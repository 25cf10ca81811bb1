# mamba.mg - Mamba (Gu, Dao, 2023): a state of each channel, of which each part fades at a rate of its own, by a step that the input
# chooses through few numbers; a causal convolution of each channel over the last four positions comes first, a gate last.
dim layers = 2, hidden = 16, inner = 12, state = 4, few = 3, tap = 4
dim vocab = 32, seq = 8, batch = 4

block conv(x[seq], w[tap]) {
    return sum(x[seq - tap] * w, over tap)
}

block mixer(x[hidden]) {
    gain : param[hidden]        = 1 as "norm.weight"
    wx   : param[hidden, inner] ~ normal(0.3) as "x.weight" [inner, hidden]
    wz   : param[hidden, inner] ~ normal(0.3) as "z.weight" [inner, hidden]
    cw   : param[inner, tap]    ~ normal(0.3) as "conv.weight"
    cb   : param[inner]         = 0 as "conv.bias"
    wb   : param[inner, state]  ~ normal(0.3) as "b.weight" [state, inner]
    wc   : param[inner, state]  ~ normal(0.3) as "c.weight" [state, inner]
    wf   : param[inner, few]    ~ normal(0.3) as "few.weight" [few, inner]
    wd   : param[few, inner]    ~ normal(0.3) as "dt.weight" [inner, few]
    bd   : param[inner]         = log(exp(exp(uniform(log(0.001), log(0.1)))) - 1) as "dt.bias"
    rate : param[inner, state]  ~ normal(0.3) as "A_log"
    skip : param[inner]         = 1 as "D.weight"
    wo   : param[inner, hidden] ~ normal(0.3) as "out.weight" [hidden, inner]
    n = rmsnorm(x, gain, over hidden, eps = 1e-5)
    u = silu(conv(n @ wx over hidden, cw) + cb)
    r = u @ wf over inner @ wd over few + bd
    dt = log(1 + exp(-abs(r))) + max(r, 0)
    b = u @ wb over inner
    c = u @ wc over inner
    h = expand(0, over (batch, inner, state))
    scan seq {
        h = exp(-exp(rate) * dt) * h + dt * u * b
        read = sum(c * h, over state)
    }
    return ((read + u * skip) * silu(n @ wz over hidden)) @ wo over inner
}

model mamba(tokens[batch, seq] : token(vocab)) {
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
