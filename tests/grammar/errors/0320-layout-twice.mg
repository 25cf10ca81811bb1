# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { device cpu }
layout { device cpu }
# CHECK: 0320-layout-twice.mg:10:1: error[MG0320]: a second layout 'default'
# CHECK: 0320-layout-twice.mg:9:1: note: the first one
# CHECK-NOT: {{error|warning}}[MG
