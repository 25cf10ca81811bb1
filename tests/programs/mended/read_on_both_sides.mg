# A parameter that is read before the layers of a pipeline and after them, with all that its gradient depends on before
# them: its sum goes to the rank of the last stage, too.
dim seq = 4, batch = 4, row = 4, vocab = 6, layers = 3

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[row, vocab] ~ normal(0.5)
    x = embed[tokens]
    y = 2 * embed
    repeat layers {
        w : param[row] = 0.5
        x = x + tanh(x * w)
    }
    head : param[row, vocab] ~ normal(0.4)
    loss = cross_entropy(x @ head over row, next(tokens)) + 0.01 * mean(y)
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    mesh pp = 2, tp = 2
    row    -> tp
    layers -> pp
    microbatch 2
}
