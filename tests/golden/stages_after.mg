# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# CHECK: stages_after.mg:[[#]]:12: error[MG0343]: the gradient of what is computed here is needed on the first rank of a pipeline, and a part of it is made on the last
# CHECK: help: what layers hand on is carried by the repeat: x = x + ...
dim hidden = 32, deep = 2, more = 2, layers = 4, vocab = 64, seq = 8, batch = 8

model after(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    first = embed[tokens]
    repeat deep as "d.{}" {
        repeat more as "m.{}" {
            w : param[hidden] = 1
            first = first + tanh(first * w)
        }
    }
    x = first
    repeat layers as "l.{}" {
        w : param[hidden] = 1
        x = x + tanh(x * w)
    }
    head : param[vocab, hidden] ~ normal(0.02)
    loss = cross_entropy((x + first) @ head over hidden, next(tokens))
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
