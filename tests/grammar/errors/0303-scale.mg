# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f16 (scale = 1000, least = 4096, window = 0) }
# CHECK: 0303-scale.mg:8:57: error[MG0303]: scale is a power of two from 1 to 2^40, not 1000
# CHECK: help: scale = 65536
# CHECK: 0303-scale.mg:8:86: error[MG0303]
# CHECK-NOT: {{error|warning}}[MG
