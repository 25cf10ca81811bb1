# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    hidden = x * 2
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0202-value-is-dim.mg:6:5: error[MG0202]: 'hidden' is the name of a dim already
# CHECK: 0202-value-is-dim.mg:2:36: note: declared here
# CHECK: help: dims, axes, constants, parameters and values share one namespace: choose another
# CHECK-NOT: {{error|warning}}[MG
