# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
block f(x) {
    w : param[hidden] = 1
    return x * w
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    mine  : block f as "mine"
    its   : block f as "its" follows mine by 0.5
    x = its(mine(table[tokens]))
    repeat layers {
        x = f(x)
    }
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    device cpu x 2
    mesh   pp = 2
    layers -> pp
    microbatch 1
}
# CHECK: 0279-pipeline.mg:11:5: error[MG0279]: stages of a pipeline cannot follow each other yet
# CHECK: 0279-pipeline.mg:22:5: note: the pipeline
# CHECK: help: leave out this rule
# CHECK-NOT: {{error|warning}}[MG
