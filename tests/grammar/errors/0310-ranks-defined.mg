# RUN: not %front check %s -D tp=2 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh dp = 1, tp = 1 }
# CHECK: -D:1:4: error[MG0310]: axis 'tp' is 2: more than one rank is not built yet
# CHECK: help: tp = 1
# CHECK-NOT: {{error|warning}}[MG
