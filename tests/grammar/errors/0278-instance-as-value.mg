# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    w : param[hidden] = 1
    return x * w
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    a : block f as "a"
    loss = mean(a(table[tokens])) + a
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0278-instance-as-value.mg:10:37: error[MG0278]: 'a' is an instance of a block, and no value
# CHECK: 0278-instance-as-value.mg:9:5: note: declared here
# CHECK: help: call it: a(...)
# CHECK-NOT: {{error|warning}}[MG
