# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { recompute always }
# CHECK: 0307-recompute.mg:9:20: error[MG0307]: there is no way to recompute 'always'
# CHECK: help: there is: auto, none, all, keep
# CHECK-NOT: {{error|warning}}[MG
