# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision fp8 (scales = blocks) }
# CHECK: 0307-scales.mg:8:58: error[MG0307]: there is no kind of scales 'blocks'
# CHECK: help: there is: tensor, tile, mx
# CHECK-NOT: {{error|warning}}[MG
