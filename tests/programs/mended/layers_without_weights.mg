# No layer has a parameter that a gradient goes to, and the schedule has those of parameters apart:
# there is nothing to do then.
dim vocab = 10, batch = 2, seq = 2, near = 4, layers = 3

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, near] ~ normal(0.3)
    x = embed[tokens]
    repeat layers {
        x = x + 0.3 * tanh(x)
    }
    head : param[vocab, near] ~ normal(0.1)
    loss = cross_entropy(x @ head over near, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    mesh pp = 2
    layers -> pp (schedule = zb-h1)
}
