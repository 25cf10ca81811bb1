# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh dp = 0
    batch -> dp
}
# CHECK: 0303-axis.mg:10:15: error[MG0303]: this is 0; an integer of at least 1 is wanted
# CHECK-NOT: {{error|warning}}[MG
