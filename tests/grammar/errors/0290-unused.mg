# RUN: %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim other = 3
const k = 2
block f(x) {
    return x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0290-unused.mg:3:5: warning[MG0290]: dim 'other' is not used
# CHECK: 0290-unused.mg:4:7: warning[MG0290]: constant 'k' is not used
# CHECK: 0290-unused.mg:5:7: warning[MG0290]: block 'f' is not called
# CHECK-NOT: {{error|warning}}[MG
