# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    metric size = mean(x)
    return x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    loss = mean(f(table[tokens]))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0277-block.mg:4:12: error[MG0277]: a metric inside of a block
# CHECK: help: metric NAME = expression is a statement of the model: return
# CHECK-NOT: {{error|warning}}[MG
