# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 7, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f32 (reduce = tree) }
layout {
    microbatch 1
}
# CHECK: 0335-tree-prime.mg:10:16: error[MG0335]: reduce = tree adds up a power of two, and 'batch' of 7 is 7 microbatches
# CHECK: help: microbatch 7
# CHECK: help: -D batch=4
# CHECK: help: -D batch=8
# CHECK-NOT: {{error|warning}}[MG
