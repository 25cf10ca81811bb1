# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { device cpu x 8 }
# CHECK: 0334-devices.mg:9:17: error[MG0334]: 8 devices, and a mesh of 1 rank
# CHECK: help: device cpu x 1
# CHECK-NOT: {{error|warning}}[MG
