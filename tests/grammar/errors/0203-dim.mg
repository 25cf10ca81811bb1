# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hiden] = 0
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0203-dim.mg:6:15: error[MG0203]: unknown dim 'hiden'
# CHECK: help: did you mean 'hidden'?
# CHECK-NOT: {{error|warning}}[MG
