# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh dp = 1  params -> dp }
# CHECK: 0325-classes.mg:9:23: error[MG0325]: 'params' is split on 'dp' and 'grads' is not
# CHECK: help: state, grads, params -> dp
# CHECK-NOT: {{error|warning}}[MG
