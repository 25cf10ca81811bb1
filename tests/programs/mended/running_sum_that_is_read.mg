# The gradient of `v` is a sum that runs through the layers, and each layer reads it after it has
# added to it: what it begins with is no start like any other.
dim vocab = 5, batch = 4, seq = 3, row = 2, hidden = 2, layers = 2, inner = 3

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[row, vocab] ~ normal(0.3)
    x = embed[tokens]
    w : param[hidden] ~ normal(0.3)
    v = x * w
    first = v
    repeat layers {
        y = x * index(hidden)
        repeat inner {
            v = v + 0.3 * y
        }
        x = x + mean(v, over hidden)
    }
    out : param[row, vocab, seq, hidden] ~ normal(0.3)
    loss = cross_entropy(first @ out over (seq, hidden, row), last(tokens, along seq)) + 0.01 * mean(x)
}

train {
    optimizer adamw
    lr        1e-2
}
