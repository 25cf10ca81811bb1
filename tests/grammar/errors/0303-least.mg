# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f16 (scale = 1024, least = 4096) }
# CHECK: 0303-least.mg:8:63: error[MG0303]: the scale starts at 1024, below its least of 4096
# CHECK: help: least = 1024
# CHECK-NOT: {{error|warning}}[MG
