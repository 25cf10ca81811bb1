# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    device cpu x 2
    mesh dp = 4
    batch -> dp
}
# CHECK: 0334-fewer.mg:10:12: error[MG0334]: 2 devices, and a mesh of 4 ranks
# CHECK: help: device cpu x 4
# CHECK-NOT: {{error|warning}}[MG
