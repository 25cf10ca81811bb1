# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    p : param[hidden, wide] ~ normal(0.02) as "pq" [hidden, wide at wide + 1]
    q : param[hidden, wide] ~ normal(0.02) as "pq" [hidden, wide at 0]
    r : param[hidden] = 1 as "r" [hidden at 2]
    x = table[tokens] * r
    x = x + sum(x @ p over hidden * (x @ q over hidden), over wide)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0269-gap.mg:5:5: error[MG0269]: no part of 'pq' has the elements 4 to 4
# CHECK: 0269-gap.mg:6:5: note: the part before it ends at 4
# CHECK: help: the next part begins at 4
# CHECK: 0269-gap.mg:7:5: error[MG0269]: no part of 'r' has the elements 0 to 1
# CHECK: help: the first part begins at 0
# CHECK-NOT: error[MG
