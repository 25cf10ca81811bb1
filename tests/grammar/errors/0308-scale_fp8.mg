# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision fp8 (scale = mx) }
# CHECK: 0308-scale_fp8.mg:8:49: error[MG0308]: precision fp8 has no scale of the loss
# CHECK: help: scales = mx
# CHECK-NOT: {{error|warning}}[MG
