# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# CHECK: error[MG0343]: each layer reads the parameter 'w', which is not one of a layer
# CHECK: help: a parameter inside of the repeat, one for each layer
dim hidden = 32, layers = 4, vocab = 64, seq = 8, batch = 8

model shared(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    w : param[hidden] = 1
    x = embed[tokens]
    repeat layers as "l.{}" {
        b : param[hidden] = 0
        x = x + tanh(x * w + b)
    }
    head : param[vocab, hidden] ~ normal(0.02)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    mesh pp = 2
    layers -> pp
    microbatch 2
}
