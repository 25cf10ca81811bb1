# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = tokens + 1
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0211-indices.mg:6:16: error[MG0211]: arithmetic on indices of 'vocab'
# CHECK: help: look them up in a table: `table[indices]`
# CHECK-NOT: {{error|warning}}[MG
