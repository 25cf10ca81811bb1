# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout a : defalt { device cpu }
layout { device cpu }
# CHECK: 0320-parent.mg:9:12: error[MG0320]: there is no layout 'defalt'
# CHECK: help: did you mean 'default'?
# CHECK-NOT: {{error|warning}}[MG
