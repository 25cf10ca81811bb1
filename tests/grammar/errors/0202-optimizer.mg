# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
setting nesterov
optimizer adamw(lr = 1, rho = 1, rho = 2) {
    state m, m, p, rho
    state n as "m"
    m = m + g
    n = n + g
    rho = 2
    rank = 1
    p = p - lr * m * rho * n
}
optimizer a() {
    p = p - lr * g
}
optimizer a() {
    p = p - lr * g
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a()  lr 0.1 }
# CHECK: 0202-optimizer.mg:3:9: error[MG0202]: 'nesterov' is there already
# CHECK: 0202-optimizer.mg:4:11: error[MG0202]: there are two optimizers 'adamw'
# CHECK: help: one is the language's: choose another name
# CHECK: 0202-optimizer.mg:4:17: error[MG0202]: 'lr' is given to every rule
# CHECK: 0202-optimizer.mg:4:34: error[MG0202]: 'rho' is a setting already
# CHECK: 0202-optimizer.mg:5:17: error[MG0202]: 'p' is there already
# CHECK: 0202-optimizer.mg:5:20: error[MG0202]: 'rho' is there already
# CHECK: 0202-optimizer.mg:5:14: error[MG0202]: 'm' is there already
# CHECK: 0202-optimizer.mg:6:11: error[MG0202]: 'm' is there already
# CHECK: 0202-optimizer.mg:9:5: error[MG0202]: 'rho' is given; a rule does not change it
# CHECK: 0202-optimizer.mg:10:5: error[MG0202]: 'rank' is given; a rule does not change it
# CHECK: 0202-optimizer.mg:16:11: error[MG0202]: there are two optimizers 'a'
# CHECK: 0202-optimizer.mg:13:11: note: declared here
# CHECK-NOT: {{error|warning}}[MG
