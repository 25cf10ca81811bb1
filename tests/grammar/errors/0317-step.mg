# Neither f16 nor a pipeline has several losses, and `loss` keeps parameters.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
block f(x) {
    w : param[hidden] = 1
    return x * w
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    x = table[tokens]
    repeat layers {
        x = f(x)
    }
    other = mean(x * x)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f16 }
train other where "table" { optimizer sgd()  lr 0.1 }
layout {
    device cpu x 2
    mesh   pp = 2
    layers -> pp
    microbatch 1
}
# CHECK: 0317-step.mg:19:7: error[MG0317]: f16 scales one loss, and this is another
# CHECK: help: train in bf16
