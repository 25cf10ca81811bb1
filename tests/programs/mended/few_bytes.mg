# Each iteration keeps a few bytes only: the search for the least that may be kept ends all the same.
dim vocab = 2, batch = 3, seq = 1, hidden = 2, layers = 4

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[hidden, vocab] = 1
    x = embed[tokens]
    repeat layers {
        x = x + 0.3 * x
    }
    head : param[vocab, hidden] ~ normal(0.3)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}
