# How much of itself an average keeps: a number from 0 to 1, or one by the step.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    w : param[hidden] = 1
    return x * w
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    a : block f as "a"
    x = a(table[tokens])
    other = mean(x * x)
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1  average -0.1 }
train other where "a*" { optimizer sgd()  lr 0.1  average step() % 2 }
# CHECK: 0279-average.mg:15:42: error[MG0279]: an average keeps -0.1 of itself; it must be from 0 to 1
# CHECK: 0279-average.mg:16:59: error[MG0279]: no number by the step
# CHECK: help: it is made of numbers, step(), + - * / and functions: 1 - 0.004 * (cos(3.14159 * step() / steps) + 1) / 2
# CHECK-NOT: {{error|warning}}[MG
