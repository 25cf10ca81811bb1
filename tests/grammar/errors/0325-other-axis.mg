# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh replica = 2, dp = 2
    batch -> replica
    vocab -> dp
    state -> dp
    grads -> replica
}
# CHECK: 0325-other-axis.mg:14:5: error[MG0325]: 'grads' is split on 'replica' and 'state' is not
# CHECK: help: state, grads -> replica
# CHECK-NOT: {{error|warning}}[MG
