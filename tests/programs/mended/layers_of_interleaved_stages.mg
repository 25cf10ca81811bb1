# A layer that reads which layer it is, where a rank has several stages: the indices of all of the rank's layers are made
# before the phases, of which each runs one stage's.
dim batch = 4, seq = 4, vocab = 4, group = 2, layers = 4

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, group] ~ uniform(-0.5, 0.5)
    x = embed[tokens]
    repeat layers {
        w : param[group] ~ normal(0.3)
        x = dropout(x * w, p = 0.5)
    }
    head : param[vocab, group] ~ uniform(-0.5, 0.5)
    loss = cross_entropy(x @ head over group, next(tokens))
}

train {
    optimizer sgd
    lr        1e-2
}

layout {
    mesh pp = 2
    layers -> pp (schedule = interleaved, chunks = 2)
    microbatch 2
}
