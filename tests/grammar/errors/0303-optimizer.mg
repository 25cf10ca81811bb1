# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
setting 0 < rho < 2
setting slow
setting -1 <= tau
optimizer a(rho = 1, slow = 0, tau = -0.5, momentum = 0.5) {
    p = p - lr * g * rho * slow * tau * momentum
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train g1 where "table" { optimizer a(slow = 2)  lr 0.1 }
train g2 where "other" { optimizer a(tau = -2)  lr 0.1 }
train { optimizer a(rho = 2)  lr 0.1 }
# CHECK: 0303-optimizer.mg:16:27: error[MG0303]: rho is 2; it must be above 0 and below 2
# CHECK: 0303-optimizer.mg:14:45: error[MG0303]: slow is 1 or 0
# CHECK: 0303-optimizer.mg:15:44: error[MG0303]: tau is -2; it must be at least -1
# CHECK-NOT: {{error|warning}}[MG
