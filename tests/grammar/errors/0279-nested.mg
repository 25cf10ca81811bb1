# One instance follows another with all that is in it.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    w : param[hidden] ~ normal(0.1)
    return x * w
}
block g(x) {
    inner : block f as "inner"
    outer : block f as "outer" follows inner by 0.5
    return inner(x) + outer(x)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    a : block g as "a"
    b : block g as "b" follows a by 0.9
    loss = mean(b(a(table[tokens])))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0279-nested.mg:10:40: error[MG0279]: an instance that follows another is in a block of one that does, too
# CHECK: 0279-nested.mg:16:5: note: which is declared here
# CHECK-NOT: {{error|warning}}[MG
