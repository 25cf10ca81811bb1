# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# CHECK: error[MG0343]: this repeat over 'layers' needs what another gives, and a microbatch goes through the stages once
# CHECK: note: the other one
# CHECK: help: over a dim of its own (dim deep = 4) it is computed as a whole, on the last rank; or the other one on the first
dim hidden = 32, layers = 4, vocab = 64, seq = 8, batch = 8

model twice(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    x = embed[tokens]
    repeat layers as "l.{}" {
        w : param[hidden] = 1
        x = x + tanh(x * w)
    }
    repeat layers as "m.{}" {
        w : param[hidden] = 1
        x = x + tanh(x * w)
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
