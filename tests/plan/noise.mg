# noise.mg - layers that drop what they compute, each its own: which layer it is shows in the numbers.
dim layers = 4, hidden = 8, vocab = 16, seq = 8, batch = 8

model noise(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    x = dropout(embed[tokens], p = 0.2)
    repeat layers as "layers.{}" {
        w : param[hidden] = 1
        x = x + dropout(tanh(x * w), p = 0.5)
    }
    head : param[vocab, hidden] ~ normal(0.5)
    loss = cross_entropy(dropout(x, p = 0.1) @ head over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}
