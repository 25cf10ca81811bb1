# Texts go on from what positions before left: elements that are read back, a state that is updated linearly,
# by head, and one that is not; in layers.
dim layers = 2, hidden = 8, heads = 4, key = 4, value = 4, tap = 3
dim vocab = 16, seq = 12, batch = 4

model texts(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(1)
    place : param[seq, hidden]   ~ normal(1)
    x = table[tokens] + place
    repeat layers {
        mix : param[hidden]                ~ normal(1)
        w   : param[tap, hidden]           ~ normal(1)
        wk  : param[hidden, heads, key]    ~ normal(1)
        wv  : param[hidden, heads, value]  ~ normal(1)
        wr  : param[hidden, heads, key]    ~ normal(1)
        wd  : param[hidden, heads]         ~ normal(1)
        wo  : param[heads, value, hidden]  ~ normal(1)
        y = x * mix + x[seq - 1] * (1 - mix)
        k = y @ wk over hidden
        v = y @ wv over hidden
        r = y @ wr over hidden
        d = sigmoid(y @ wd over hidden)
        s = expand(0, over (batch, heads, key, value))
        scan seq {
            s = d * s + k * v
            o = s @ r over key
        }
        t = expand(0, over (batch, hidden))
        scan seq {
            t = tanh(0.5 * t + y)
            g = t
        }
        x = x + (tanh(o) @ wo over (heads, value)) + sum(g[seq - tap] * w, over tap)
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}

train {
    optimizer sgd()
    lr constant(peak = 1, steps = 1)
}
