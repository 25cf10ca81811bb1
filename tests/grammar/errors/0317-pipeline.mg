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
train { optimizer sgd()  lr 0.1 }
train other where "table" { optimizer sgd()  lr 0.1 }
layout {
    device cpu x 2
    mesh   pp = 2
    layers -> pp
    microbatch 1
}
# CHECK: 0317-pipeline.mg:18:7: error[MG0317]: stages of a pipeline compute the gradients of one loss, and this is another
# CHECK: 0317-pipeline.mg:22:5: note: the pipeline
# CHECK: help: leave out this rule, or add up the losses: loss = ... + 0.1 * other
# CHECK-NOT: {{error|warning}}[MG
