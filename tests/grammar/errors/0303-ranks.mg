# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh dp = 3000000
    batch -> dp
}
# CHECK: 0303-ranks.mg:10:10: error[MG0303]: axis 'dp' is 3000000, and at most 1048576
# CHECK-NOT: {{error|warning}}[MG
