# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block slow(p, g, lr) {
    return p - g * lr
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(slow(x, x, 0.1) @ table over hidden, next(tokens))
}
train { optimizer slow()  lr 0.1 }
# CHECK: 0307-own-optimizer.mg:11:19: error[MG0307]: there is no optimizer 'slow'
# CHECK: help: 'slow' is a block of this file; an optimizer is declared as `optimizer slow(...) { ... }`
# CHECK-NOT: {{error|warning}}[MG
