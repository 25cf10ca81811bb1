# rwkv.mg - RWKV-4 (Peng and others, 2023): a linear recurrence of each channel, between a shift by one position and a gate; the
# weights of what came before fade at a rate of the channel's own.
dim layers = 2, hidden = 16, in = hidden, ffn = 16
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block mixed(x[hidden], before[hidden]) {
    share : param[hidden] ~ normal(0.3) as "mix"
    return (share * x + (1 - share) * before)[hidden -> in]
}

block time_mix(x[hidden]) {
    wr    : param[in, hidden] ~ normal(0.3) as "r.weight" [hidden, in]
    wk    : param[in, hidden] ~ normal(0.3) as "k.weight" [hidden, in]
    wv    : param[in, hidden] ~ normal(0.3) as "v.weight" [hidden, in]
    wo    : param[in, hidden] ~ normal(0.3) as "o.weight" [hidden, in]
    decay : param[hidden]     ~ normal(0.3) as "decay"
    first : param[hidden]     ~ normal(0.3) as "first"
    before = x[seq - 1]
    r = sigmoid((mixed(x, before) as "r") @ wr over in)
    k = (mixed(x, before) as "k") @ wk over in
    v = (mixed(x, before) as "v") @ wv over in
    above = expand(0, over (batch, hidden))
    below = above
    scan seq {
        now = exp(first + k)
        y = (above + now * v) / (below + now)
        fade = exp(-exp(decay))
        above = fade * above + exp(k) * v
        below = fade * below + exp(k)
    }
    return (r * y)[hidden -> in] @ wo over in
}

block channel_mix(x[hidden]) {
    wr : param[in, hidden]  ~ normal(0.3) as "r.weight" [hidden, in]
    wk : param[in, ffn]     ~ normal(0.3) as "k.weight" [ffn, in]
    wv : param[ffn, hidden] ~ normal(0.3) as "v.weight" [hidden, ffn]
    before = x[seq - 1]
    k = relu((mixed(x, before) as "k") @ wk over in)
    return sigmoid((mixed(x, before) as "r") @ wr over in) * ((k * k) @ wv over ffn)
}

model rwkv(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    head  : param[vocab, hidden] ~ normal(0.3) as "head.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + time_mix(norm(x) as "ln1") as "att"
        x = x + channel_mix(norm(x) as "ln2") as "ffn"
    }
    loss = cross_entropy((norm(x) as "norm") @ head over hidden, next(tokens))
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
