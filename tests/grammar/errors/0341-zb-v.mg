# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 8, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  }
layout { mesh pp = 2, dp = 2  layers -> pp (schedule = zb-v) }
# CHECK: 0341-zb-v.mg:10:56: error[MG0341]: zb-v puts the first stage and the last on one rank, and a layout has each rank's stages in a loop: only mgc pipeline has this schedule so far
# CHECK: help: schedule = zb-h1
# CHECK: help: schedule = interleaved
# CHECK-NOT: {{error|warning}}[MG
