# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f32 (reduce = tree) }
layout {
    mesh replica = 2, dp = 2
    batch -> replica, dp
    microbatch 2
}
# CHECK: 0336-tree-axes.mg:12:16: error[MG0336]: reduce = tree adds up over one axis, and 'batch' is split on replica, dp
# CHECK: help: -D replica=4 -D dp=1
# CHECK-NOT: {{error|warning}}[MG
