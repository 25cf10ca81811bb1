# RUN: not %front check %s --layout node 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout node8 { device cpu }
# CHECK: mgc: error[MG0320]: there is no layout 'node'
# CHECK: help: did you mean 'node8'?
# CHECK-NOT: {{error|warning}}[MG
