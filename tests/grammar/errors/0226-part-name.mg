# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 6, low = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    a = x[hidden = low .. 4]
    b = x[hidden = 0 .. 2]
    loss = cross_entropy(x @ table over hidden, next(tokens)) + mean(a[low = 0]) + mean(b)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: :6:11: error[MG0226]: the dim of this part has no name
# CHECK: help: `dim part = ...` and `x[hidden = ... -> part]` give it one
# CHECK: :7:11: error[MG0226]: the dim of this part has no name
# CHECK-NOT: {{error|warning}}[MG
