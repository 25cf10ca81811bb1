# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision fp8 (gradients = e3m4) }
# CHECK: 0307-gradients.mg:8:61: error[MG0307]: there is no type of gradients 'e3m4'
# CHECK: help: did you mean 'e4m3'?
# CHECK: help: there is: e4m3, e5m2
# CHECK-NOT: {{error|warning}}[MG
