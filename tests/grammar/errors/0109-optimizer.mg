# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
setting 0 <= rho < 1
setting unasked
setting 1 < tau < 2
optimizer a(rho = 1.5, tau = 1, speed, slow = fast, decay = 0.1, betas = 0.9) {
    p = p - g * lr * rho * tau * decay
}
optimizer b() {
    p = p - lr
    return p
}
optimizer c() {
    state lost
    state kept
    q = p - g * lr
    kept = g
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a()  lr 0.1 }
# CHECK: 0109-optimizer.mg:4:9: error[MG0109]: no optimizer has the setting 'unasked'
# CHECK: 0109-optimizer.mg:5:9: error[MG0109]: a number may be above 0, and at least others
# CHECK: 0109-optimizer.mg:6:13: error[MG0109]: the default of 'rho' is no number of its range
# CHECK: 0109-optimizer.mg:6:24: error[MG0109]: the default of 'tau' is no number of its range
# CHECK: 0109-optimizer.mg:6:33: error[MG0109]: the setting 'speed' has no default
# CHECK: 0109-optimizer.mg:6:40: error[MG0109]: the default of 'slow' is no number of its range
# CHECK: 0109-optimizer.mg:6:53: error[MG0109]: the default of 'decay' is no number of its range: it is 0, and a train block says more
# CHECK: 0109-optimizer.mg:6:66: error[MG0109]: 'betas' are two numbers
# CHECK: 0109-optimizer.mg:11:5: error[MG0109]: a rule gives values to names, and no more
# CHECK: 0109-optimizer.mg:9:11: error[MG0109]: the rule of 'b' does not read 'g'
# CHECK: 0109-optimizer.mg:13:11: error[MG0109]: the rule of 'c' gives 'p' no new value
# CHECK: 0109-optimizer.mg:14:11: error[MG0109]: the rule of 'c' gives 'lost' no new value
# CHECK: 0109-optimizer.mg:15:11: error[MG0109]: the rule of 'c' does not read 'kept': it needs no state
# CHECK-NOT: {{error|warning}}[MG
