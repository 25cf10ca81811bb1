# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  batch -> dp }
# CHECK: 0301-rule.mg:8:40: error[MG0301]: a sharding rule in the train block
# CHECK: help: rules belong to a layout
# CHECK-NOT: {{error|warning}}[MG
