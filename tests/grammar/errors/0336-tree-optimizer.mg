# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer muon()  lr 0.1  precision f32 (reduce = tree) }
layout {
    mesh dp = 2
    batch -> dp
    state -> dp
    microbatch 2
}
# CHECK: 0336-tree-optimizer.mg:13:16: error[MG0336]: reduce = tree, and muon sums over state that is split on dp
# CHECK: help: without state -> dp
# CHECK-NOT: {{error|warning}}[MG
