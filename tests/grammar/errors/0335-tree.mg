# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 24, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f32 (reduce = tree) }
layout {
    mesh dp = 2
    batch -> dp
    microbatch 2
}
# CHECK: 0335-tree.mg:12:16: error[MG0335]: reduce = tree adds up a power of two, and 'batch' of 24 is 12 microbatches
# CHECK: help: microbatch 3
# CHECK: help: -D batch=16
# CHECK: help: -D batch=32
# CHECK-NOT: {{error|warning}}[MG
