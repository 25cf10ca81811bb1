# A repeat that reads the weights of targets: where a text is continued there are none, so there is no such repeat, nor
# what it carries.
dim vocab = 4, batch = 3, seq = 6, hidden = 6, rounds = 3

model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed : param[hidden, vocab] ~ normal(0.3)
    x = embed[tokens]
    y = tanh(x)
    repeat rounds {
        g : param[hidden] ~ normal(0.3)
        y = y + y * g
        x = x + pow(weight * g, 2)
    }
    head : param[hidden, vocab] ~ normal(0.3)
    loss = cross_entropy(y @ head over hidden, next(tokens), weight) + 0.01 * mean(x)
}

train {
    optimizer adafactor
    lr        1e-2
}
