# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh cp = 2, tp = 2
    seq -> tp, cp
}
layout batch_last { # of the batch the last axis may be any
    mesh cp = 2, tp = 2
    batch -> tp, cp
}
layout batch_first { # and no other
    mesh cp = 1, tp = 1, dp = 1
    batch -> tp, cp, dp
}
# CHECK: 0339-order.mg:11:16: error[MG0339]: a rule names 'tp' before 'cp', and the mesh has 'cp' before 'tp'
# CHECK: help: seq -> cp, tp
# CHECK: 0339-order.mg:19:18: error[MG0339]: a rule names 'tp' before 'cp', and the mesh has 'cp' before 'tp'
# CHECK: help: batch -> cp, tp
# CHECK-NOT: {{error|warning}}[MG
