# scans.mg - what is handed on along a sequence, for programs of several ranks: a convolution reads the positions before and the
# next one, one state fades, one is corrected (the delta rule), one goes backward, and attention runs along the same dim.
dim hidden = 8, heads = 2, key = 2, value = 4, tap = 3, vocab = 8, seq = 16, batch = 8

model scans(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden]        ~ normal(0.3) as "embed"
    spot  : param[seq, hidden]          ~ normal(0.3)
    w     : param[tap, hidden]          ~ normal(0.3)
    fade  : param[hidden, heads]        ~ normal(0.3)
    part  : param[hidden, heads]        ~ normal(0.3)
    wq    : param[hidden, heads, key]   ~ normal(0.3)
    wk    : param[hidden, heads, key]   ~ normal(0.3)
    wv    : param[hidden, heads, value] ~ normal(0.3)
    wo    : param[heads, value, hidden] ~ normal(0.3)
    uo    : param[heads, value, hidden] ~ normal(0.3)
    x = embed[tokens] + spot
    x = x + sum(x[seq - tap] * w, over tap) + 0.3 * x[seq + 1]
    q = tanh(x @ wq over hidden)
    k = tanh(x @ wk over hidden)
    v = tanh(x @ wv over hidden)
    a = sigmoid(x @ fade over hidden)
    b = sigmoid(x @ part over hidden)
    h = expand(0, over (batch, heads, key, value))
    d = expand(0.1, over (batch, heads, key, value))
    scan seq {
        h = a * h + k * v
        d = a * d
        d = d + b * (v - k @ d over key) * k
        y = q @ h over key + q @ d over key
    }
    e = expand(0, over (batch, hidden))
    scan seq reverse {
        e = 0.9 * e + x
        z = e
    }
    x = x + y @ wo over (heads, value) + 0.1 * z + 0.1 * e
    x = x + attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over key, causal) @ uo over (heads, value)
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
}

layout {
    device     cpu
    mesh       dp = 1, cp = 1, tp = 1
    microbatch 8
    chunk      2
}
