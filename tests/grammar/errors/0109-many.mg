# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer a() {
    state s0, s1, s2, s3, s4, s5, s6, s7, s8
    p = p - lr * g
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a()  lr 0.1 }
# CHECK: 0109-many.mg:3:11: error[MG0109]: more than 8 states of optimizers
# CHECK-NOT: {{error|warning}}[MG
