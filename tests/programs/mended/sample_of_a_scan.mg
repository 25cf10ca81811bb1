# A sample leaves out what reads the next tokens: in a scan, too, whose other values do not have its dim.
dim batch = 2, seq = 4, vocab = 8, hidden = 4

model it(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    gain  : param[hidden]        ~ normal(0.5)
    y = embed[next(tokens)]
    h = expand(0.5, over (batch, seq))
    scan hidden {
        z = sin(h)
        h = tanh(h + z + y)
    }
    loss = cross_entropy(embed[tokens] * gain @ embed over hidden, next(tokens)) + mean(h * h)
}

train {
    optimizer sgd()
    lr        0.1
    precision f64
}
