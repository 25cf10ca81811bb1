# rwkv.mg - RWKV-4 (Peng and others, 2023): a linear recurrence of each channel, between a shift by one position and a gate; the
# weights of what came before fade at a rate of the channel's own.
dim layers = 2, hidden = 16, in = hidden, ffn = 16, vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block mixed(x[hidden], over out) {
    share : param[hidden]      ~ normal(0.3) as "mix"
    w     : param[hidden, out] ~ normal(0.3) as "weight" [out, hidden]
    return (share * x + (1 - share) * x[seq - 1]) @ w over hidden
}

block time_mix(x[hidden]) {
    wo    : param[in, hidden] ~ normal(0.3) as "o.weight" [hidden, in]
    decay : param[in]         ~ normal(0.3) as "decay"
    first : param[in]         ~ normal(0.3) as "first"
    k = mixed(x, over in) as "k"
    v = mixed(x, over in) as "v"
    above = expand(0, over (batch, in))
    below = above
    scan seq {
        now = exp(first + k)
        y = (above + now * v) / (below + now)
        fade = exp(-exp(decay))
        above = fade * above + exp(k) * v
        below = fade * below + exp(k)
    }
    return (sigmoid(mixed(x, over in) as "r") * y) @ wo over in
}

block channel_mix(x[hidden]) {
    wv : param[ffn, hidden] ~ normal(0.3) as "v.weight" [hidden, ffn]
    k = relu(mixed(x, over ffn) as "k")
    return sigmoid(mixed(x, over in) as "r")[in -> hidden] * ((k * k) @ wv over ffn)
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
    microbatch 4
}
