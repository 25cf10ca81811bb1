# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    dim t = seq
    return x[seq -> t]
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = f(x)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0247-escape.mg:3:7: error[MG0247]: the result [batch, t, hidden] of 'f' has its own dim 't'
# CHECK: 0247-escape.mg:4:9: note: declared here
# CHECK: help: sum over it, or rename it: `x[t -> ...]`
# CHECK-NOT: {{error|warning}}[MG
