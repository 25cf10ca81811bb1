# A parameter follows the one that has its name, with the same dims.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 5
block f(x, over d) {
    w : param[d] ~ normal(0.1)
    return x * w
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    other : param[vocab, wide] ~ normal(0.02)
    a : block f as "a"
    b : block f as "b" follows a by 0.9
    c : block f as "c"
    d : block f as "d" follows c by 0.9
    x = d(a(table[tokens], over hidden), over hidden)
    y = b(other[tokens], over wide)
    loss = mean(x) + mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0279-dims.mg:15:9: error[MG0279]: 'd.w' follows nothing: there is no parameter 'c.w'
# CHECK: 0279-dims.mg:5:5: note: the parameter is declared here
# CHECK: 0279-dims.mg:13:5: note: 'c' makes none in any call
# CHECK: 0279-dims.mg:16:9: error[MG0279]: 'b.w' has other dims, or another external order, than 'a.w'
# CHECK: 0279-dims.mg:5:5: note: the parameter is declared here
# CHECK: 0279-dims.mg:11:5: note: 'a' is called with other dims
# CHECK-NOT: {{error|warning}}[MG
