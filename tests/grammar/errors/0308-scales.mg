# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f16 (scales = mx) }
# CHECK: 0308-scales.mg:8:49: error[MG0308]: precision f16 has no scales of fp8
# CHECK: help: precision f16
# CHECK-NOT: {{error|warning}}[MG
