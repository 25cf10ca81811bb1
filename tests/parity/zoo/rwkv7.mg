# rwkv7.mg - the recurrence of RWKV-7 (Peng and others, 2025): a state of each head fades by a rate of each key, gives up what a key of length
# 1 reads of it, as far as the input says, and takes in a value; before it a shift by one position, behind it a norm of each head and a gate.
dim layers = 2, hidden = 16, heads = 4, key = 4, value = 4
dim vocab = 32, seq = 8, batch = 4

block part(x[hidden], over width) {
    share : param[hidden]               ~ normal(0.3) as "mix"
    w     : param[hidden, heads, width] ~ normal(0.3) as "weight" [(heads width), hidden]
    return (x + (x[seq - 1] - x) * share) @ w over hidden
}

block mixer(x[hidden]) {
    gain   : param[hidden]               = 1 as "norm.weight"
    slow   : param[heads, key]           ~ normal(0.3) as "decay.bias" [(heads key)]
    learn  : param[heads, key]           ~ normal(0.3) as "learn.bias" [(heads key)]
    remove : param[heads, key]           ~ normal(0.3) as "remove.weight" [(heads key)]
    out    : param[heads, value]         = 1 as "out_norm.weight" [(heads value)]
    wo     : param[heads, value, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads value)]
    n = rmsnorm(x, gain, over hidden, eps = 1e-5)
    r = part(n, over key) as "r"
    k = part(n, over key) as "k"
    v = part(n, over value) as "v"
    g = sigmoid(part(n, over value) as "g")
    w = exp(-0.606531 * sigmoid(slow + part(n, over key) as "w"))
    a = sigmoid(learn + part(n, over key) as "a")
    away = k * remove
    away = away * rsqrt(sum(away * away, over key) + 1e-6)
    state = expand(0, over (batch, heads, key, value))
    scan seq {
        state = w * state - (away @ state over key) * away * a + k * v
        read = r @ state over key
    }
    m = read - mean(read, over value)
    return (m * rsqrt(mean(m * m, over value) + 1e-3) * out * g) @ wo over (heads, value)
}

model rwkv7(tokens[batch, seq] : token(vocab)) {
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
