# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# CHECK: error[MG0343]: each layer reads the parameter 'embed', which is not one of a layer
# CHECK: note: the layers are on several ranks
dim hidden = 32, layers = 4, vocab = 64, seq = 8, batch = 8

model far(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    first = embed[tokens]
    x = first
    repeat layers as "l.{}" {
        w : param[hidden] = 1
        x = x + tanh(x * w) + first
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
