# gated_delta.mg - the gated delta rule (Yang and others, 2024): a state fades, forgets what a key reads in part, and takes in the value
# instead.
dim layers = 2, hidden = 16, heads = 4, key = 4, value = 4
dim vocab = 32, seq = 8, batch = 4

block mixer(x[hidden]) {
    gain : param[hidden]               = 1 as "norm.weight"
    wq   : param[hidden, heads, key]   ~ normal(0.3) as "q.weight" [(heads key), hidden]
    wk   : param[hidden, heads, key]   ~ normal(0.3) as "k.weight" [(heads key), hidden]
    wv   : param[hidden, heads, value] ~ normal(0.3) as "v.weight" [(heads value), hidden]
    wa   : param[hidden, heads]        ~ normal(0.3) as "a.weight" [heads, hidden]
    wb   : param[hidden, heads]        ~ normal(0.3) as "b.weight" [heads, hidden]
    rate : param[heads]                = 0 as "A_log.bias"
    bd   : param[heads]                = 0 as "dt.bias"
    wg   : param[hidden, heads, value] ~ normal(0.3) as "g.weight" [(heads value), hidden]
    out  : param[value]                = 1 as "out_norm.weight"
    wo   : param[heads, value, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads value)]
    n = rmsnorm(x, gain, over hidden, eps = 1e-5)
    q = n @ wq over hidden
    k = n @ wk over hidden
    v = n @ wv over hidden
    q = q * rsqrt(sum(q * q, over key) + 1e-6)
    k = k * rsqrt(sum(k * k, over key) + 1e-6)
    r = n @ wa over hidden + bd
    decay = exp(-exp(rate) * (log(1 + exp(-abs(r))) + max(r, 0)))
    part = sigmoid(n @ wb over hidden)
    state = expand(0, over (batch, heads, key, value))
    scan seq {
        state = decay * state
        state = state + part * (v - k @ state over key) * k
        read = q @ state over key
    }
    return (rmsnorm(read, out, over value, eps = 1e-5) * silu(n @ wg over hidden)) @ wo over (heads, value)
}

model gated_delta(tokens[batch, seq] : token(vocab)) {
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
