# A rule whose values are read twice, one after the other: the proof looked at every way through them, and never ended.
dim vocab = 16, hidden = 8, seq = 8, batch = 4

optimizer chain() {
    state m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    m = m * g + m
    p = p - lr * m
}

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1)
    x = embed[tokens]
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}
train { optimizer chain()  lr 0.1 }
