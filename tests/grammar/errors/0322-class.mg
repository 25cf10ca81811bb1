# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh dp = 2
    batch -> dp
    states -> dp
}
# CHECK: 0322-class.mg:12:5: error[MG0322]: a rule for 'states', which is neither a dim nor a class of tensors
# CHECK: help: did you mean 'state'?
# CHECK-NOT: {{error|warning}}[MG
