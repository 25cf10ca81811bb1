# A sample leaves out a repeat of several kinds, and the next one has the same dims as in training.
dim batch = 2, seq = 4, vocab = 8, hidden = 4, rounds = 5

model it(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    x = embed[tokens]
    z = x + embed[next(tokens)]
    repeat rounds at n as "a.{}" {
        w : param[hidden] ~ normal(0.5)
        z = z * w + select(n % 2 == 0, sin(z), tanh(z))
    }
    repeat rounds at n as "r.{}" {
        w : param[hidden] ~ normal(0.5)
        x = x * w + select(n % 2 == 0, sin(x), tanh(x))
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens)) + mean(z)
}

train {
    optimizer sgd()
    lr        0.1
    precision f64
}
