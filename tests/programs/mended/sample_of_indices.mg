# A sample computes one position at a time: tokens that are compared are indices, which nothing looks up by position.
dim vocab = 4, seq = 4, batch = 2, near = 4, hidden = 2

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, near] ~ normal(0.3)
    x = embed[tokens]
    w : param[hidden] = 1
    s : param[]       ~ normal(0.3)
    x = x + sum(select(tokens == 0, x + w, s), over hidden)
    head : param[near, vocab] ~ normal(0.3)
    loss = cross_entropy(x @ head over near, next(tokens))
}

train {
    optimizer adafactor
    lr        1e-2
}
