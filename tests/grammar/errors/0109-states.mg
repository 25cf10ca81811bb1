# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer a(rho = 1) {
    state m where rho == 1
    state n[all], c as "a copy"
    state r as "rounded"
    p = p - lr * (m + n + c + r) * rho
    m = g
    n = g
    c = g
    r = g
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a()  lr 0.1 }
# CHECK: 0109-states.mg:4:23: error[MG0109]: the condition of a state is `matrix == 0`, or `S != 0` of a setting of 'a'
# CHECK: 0109-states.mg:5:13: error[MG0109]: a state has all dims, [rows], [cols] or []
# CHECK: 0109-states.mg:5:19: error[MG0109]: a checkpoint cannot call a state 'a copy': letters, digits and '_' make up its name, at most 64, and copies of parameters are "rounded"
# CHECK: 0109-states.mg:6:11: error[MG0109]: a checkpoint cannot call a state 'rounded': letters, digits and '_' make up its name, at most 64, and copies of parameters are "rounded"
# CHECK-NOT: {{error|warning}}[MG
