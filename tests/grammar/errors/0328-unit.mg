# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { assert peak < 3 ms }
# CHECK: 0328-unit.mg:9:24: error[MG0328]: 'peak' is bounded by a number of bytes
# CHECK: help: assert peak < 76 GB
# CHECK-NOT: {{error|warning}}[MG
