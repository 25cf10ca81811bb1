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
    b : block f as "b" follows a by 1.5
    c : block f as "c" follows a every 0
    d : block f as "d" follows a by step() % 2
    e : block f as "e" follows a by hidden / 4
    x = e(d(c(b(a(table[tokens])))))
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0279-numbers.mg:11:37: error[MG0279]: an average keeps 1.5 of itself; it must be from 0 to 1
# CHECK: 0279-numbers.mg:12:40: error[MG0279]: every 0 steps; it must be at least 1
# CHECK: 0279-numbers.mg:13:37: error[MG0279]: no number by the step
# CHECK: help: it is made of numbers, step(), + - * / and functions: 1 - 0.004 * (cos(3.14159 * step() / steps) + 1) / 2
# CHECK-NOT: {{error|warning}}[MG
