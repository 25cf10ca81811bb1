# Three layers in two stages: of what the last stage stacks there is a slice that no layer writes,
# and which no gradient may be taken from.
dim vocab = 8, batch = 2, seq = 4, hidden = 2, col = 4, layers = 3

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3)
    x = embed[tokens]
    repeat layers {
        w : param[col, hidden] ~ normal(0.3)
        a : param[]            ~ normal(0.3)
        b : param[]            ~ normal(0.3)
        t = a * sum(min(max(x * w, seq), b), over col)
        x = x + pow(1 + t * t, b)
    }
    head : param[hidden, vocab] ~ normal(0.3)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    mesh pp = 2
    layers -> pp (schedule = zb-h1)
}
