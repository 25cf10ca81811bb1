# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer slow(momentum = 0) {
    p = p - g * lr
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer slow()  lr 0.1 }
# CHECK: 0109-optimizer.mg:3:1: error[MG0109]: a file cannot declare an optimizer
# CHECK: help: the rules of optimizers are the compiler's own
# CHECK-NOT: {{error|warning}}[MG
