# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { device cpu x 8 }
# CHECK: 0310-devices.mg:9:17: error[MG0310]: 8 devices: more than one rank is not built yet
# CHECK: help: device cpu
# CHECK-NOT: {{error|warning}}[MG
