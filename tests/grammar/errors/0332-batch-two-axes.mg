# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh replica = 2, dp = 3
    batch -> replica, dp
}
# CHECK: 0332-batch-two-axes.mg:9:1: error[MG0332]: 'batch' of 16 is not split evenly on 6 ranks
# CHECK: help: -D dp=2
# CHECK: help: -D dp=4
# CHECK: help: -D batch=18
# CHECK-NOT: {{error|warning}}[MG
