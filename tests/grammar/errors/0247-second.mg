# A result that is not the first has a dim of its own.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    dim t = seq
    return x, x[seq -> t]
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x, y = f(table[tokens])
    loss = cross_entropy((x + y) @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0247-second.mg:4:7: error[MG0247]: the result [batch, t, hidden] of 'f' has its own dim 't'
# CHECK-NOT: {{error|warning}}[MG
