# Dropout of a value whose first dim is not the batch, one microbatch at a time.
dim vocab = 4, batch = 4, seq = 3, hidden = 4, wide = 5

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3)
    w     : param[wide, hidden]  ~ normal(0.3)
    x = dropout(w @ embed[tokens] over hidden, p = 0.5)
    head : param[wide, vocab] ~ normal(0.3)
    loss = cross_entropy(x @ head over wide, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    mesh dp = 2
    batch -> dp
    microbatch 1
}
