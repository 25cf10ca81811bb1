# RUN: %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    w : param[hidden] = 1
    return x * w
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    a : block f as "a"
    _b : block f as "b"
    loss = mean(table[tokens])
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0290-instance.mg:9:5: warning[MG0290]: instance 'a' is not called
# CHECK-NOT: {{error|warning}}[MG
