# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer a(rho = 1) {
    state m
    move = momentum * rho + later - 1 * decay
    later = g
    m = m + move
    p = p - lr * m
    rest none
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a()  lr 0.1 }
# CHECK: 0201-optimizer.mg:5:12: error[MG0201]: the rule of 'a' reads 'momentum', which is no setting or state of it
# CHECK: 0201-optimizer.mg:5:29: error[MG0201]: the rule of 'a' reads 'later', which is no setting or state of it
# CHECK: 0201-optimizer.mg:5:41: error[MG0201]: the rule of 'a' reads 'decay', which is no setting or state of it
# CHECK: help: `a(..., decay = 0)` has the decay of each parameter
# CHECK: 0201-optimizer.mg:9:10: error[MG0201]: there is no optimizer 'none'
# CHECK-NOT: {{error|warning}}[MG
