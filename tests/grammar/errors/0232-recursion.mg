# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    return g(x)
}
block g(x) {
    return f(x)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0232-recursion.mg:7:12: error[MG0232]: block 'f' calls itself
# CHECK: 0232-recursion.mg:3:7: note: declared here
# CHECK: help: `repeat` runs a body several times
# CHECK-NOT: {{error|warning}}[MG
