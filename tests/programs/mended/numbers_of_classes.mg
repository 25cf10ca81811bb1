# The classes are split over cp, and alone over dp too: their numbers, made for the loss of a part, did not come out even.
dim col = 22
dim row = 3, seq = 2, batch = 8
dim vocab = batch / 2
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed45 : param[col, row, vocab] = 0.5
    x = embed45[tokens]
    w54 : param[] ~ normal(0.3)
    x = x + (weight * w54)
    head55 : param[col, vocab, row] ~ normal(0.3)
    loss = cross_entropy(x @ head55 over (row, col), next(tokens), weight)
}
train {
    optimizer adamw
    lr 1e-2
}
layout {
    mesh dp = 2, cp = 4
    col, batch -> dp
    vocab -> dp
    vocab -> cp
}
