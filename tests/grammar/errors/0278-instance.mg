# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 5
block f(x, over d, std = 0.1) {
    w : param[d] ~ normal(std)
    return x * w
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    other : param[vocab, wide] ~ normal(0.02)
    a : block f as "a"
    b : block f as "b"
    c : block ff
    d : block softmax
    x = a(table[tokens], over hidden)
    y = a(other[tokens], over wide)
    x = b(x, over hidden) + b(x, over hidden, std = 0.2)
    x = b(x, over hidden) as "again"
    loss = mean(x) + mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0278-instance.mg:12:15: error[MG0278]: there is no block 'ff' in this file
# CHECK: help: did you mean 'f'?
# CHECK: 0278-instance.mg:13:15: error[MG0278]: there is no block 'softmax' in this file
# CHECK: 0278-instance.mg:15:9: error[MG0278]: 'w' is [wide = 5] in this call, and [hidden = 3] in the first one: calls of an instance share it
# CHECK: 0278-instance.mg:14:9: note: the first call
# CHECK: 0278-instance.mg:4:5: note: 'w' is declared here
# CHECK: help: calls whose parameters differ are of two instances, with a name each
# CHECK: 0278-instance.mg:16:29: error[MG0278]: 'w' has another initial value in this call than in the first one
# CHECK: 0278-instance.mg:17:9: error[MG0278]: calls of 'b' have the parameters of its declaration, whose names no call changes
# CHECK: 0278-instance.mg:11:5: note: declared here
# CHECK: help: b : block f as "again"
# CHECK-NOT: {{error|warning}}[MG
