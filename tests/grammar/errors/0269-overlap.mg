# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    p : param[hidden, wide] ~ normal(0.02) as "pq" [hidden, wide at 0]
    q : param[hidden, wide] ~ normal(0.02) as "pq" [hidden, wide at 3]
    x = table[tokens]
    x = x + sum(x @ p over hidden * (x @ q over hidden), over wide)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0269-overlap.mg:6:5: error[MG0269]: 'q' has the elements 3 to 6 of 'pq', and another part 0 to 3
# CHECK: 0269-overlap.mg:5:5: note: by this parameter
# CHECK: help: it can begin at 4
# CHECK-NOT: error[MG
