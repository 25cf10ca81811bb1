# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh hidden = 2
    batch -> hidden
}
# CHECK: 0202-axis.mg:10:10: error[MG0202]: 'hidden' is the name of a dim already
# CHECK: 0202-axis.mg:2:37: note: declared here
# CHECK: help: dims, axes, constants, parameters and values share one namespace
# CHECK-NOT: {{error|warning}}[MG
