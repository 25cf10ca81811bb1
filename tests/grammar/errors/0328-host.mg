# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { assert host < 3 ms }
# CHECK: 0328-host.mg:9:24: error[MG0328]: 'host' is bounded by a number of bytes
# CHECK: help: assert host < 60 GB
# CHECK-NOT: {{error|warning}}[MG
