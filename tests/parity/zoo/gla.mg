# gla.mg - gated linear attention (Yang and others, 2024): each row of a head's state fades by a gate of its own.
dim layers = 2, hidden = 16, heads = 4, key = 4, value = 4
dim vocab = 32, seq = 8, batch = 4

block mixer(x[hidden]) {
    gain : param[hidden]               = 1 as "norm.weight"
    wq   : param[hidden, heads, key]   ~ normal(0.3) as "q.weight" [(heads key), hidden]
    wk   : param[hidden, heads, key]   ~ normal(0.3) as "k.weight" [(heads key), hidden]
    wv   : param[hidden, heads, value] ~ normal(0.3) as "v.weight" [(heads value), hidden]
    wf   : param[hidden, heads, key]   ~ normal(0.3) as "f.weight" [(heads key), hidden]
    bf   : param[heads, key]           = 0 as "f.bias" [(heads key)]
    wg   : param[hidden, heads, value] ~ normal(0.3) as "g.weight" [(heads value), hidden]
    out  : param[value]                = 1 as "out_norm.weight"
    wo   : param[heads, value, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads value)]
    n = rmsnorm(x, gain, over hidden, eps = 1e-5)
    q = n @ wq over hidden / sqrt(key)
    k = n @ wk over hidden
    v = n @ wv over hidden
    gate = pow(sigmoid(n @ wf over hidden + bf), 0.25)
    state = expand(0, over (batch, heads, key, value))
    scan seq {
        state = gate * state + k * v
        read = q @ state over key
    }
    return (rmsnorm(read, out, over value, eps = 1e-5) * silu(n @ wg over hidden)) @ wo over (heads, value)
}

model gla(tokens[batch, seq] : token(vocab)) {
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
