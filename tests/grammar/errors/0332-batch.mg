# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 6, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh dp = 4
batch -> dp }
# CHECK: 0332-batch.mg:9:1: error[MG0332]: 'batch' of 6 is not split evenly on 4 ranks
# CHECK: help: -D dp=3
# CHECK: help: -D dp=6
# CHECK: help: -D batch=8
# CHECK-NOT: {{error|warning}}[MG
