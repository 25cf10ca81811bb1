# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer a(rho = 1) {
    p = p - lr * g * rho
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a(beta = 0.9)  lr 0.1 }
# CHECK: 0308-optimizer.mg:11:21: error[MG0308]: 'a' has no argument 'beta'
# CHECK: help: there is: rho
# CHECK-NOT: {{error|warning}}[MG
