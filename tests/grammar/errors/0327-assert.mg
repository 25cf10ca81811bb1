# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { assert peek < 3 GB }
# CHECK: 0327-assert.mg:9:17: error[MG0327]: there is no quantity 'peek'
# CHECK: help: did you mean 'peak'?
# CHECK: help: there is: peak, exposed_comm, step, host, disk
# CHECK-NOT: {{error|warning}}[MG
