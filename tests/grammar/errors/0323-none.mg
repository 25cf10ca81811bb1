# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh dp = 2, tp = 2
    batch -> data
    vocab -> tp
}
# CHECK: 0323-none.mg:11:14: error[MG0323]: the mesh has no axis 'data'
# CHECK: help: the mesh has dp, tp
# CHECK-NOT: {{error|warning}}[MG
