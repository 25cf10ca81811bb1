# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
model n(tokens[batch, seq] : token(vocab)) {
    loss = 1
}
# CHECK: 0274-two-models.mg:9:7: error[MG0274]: a second model
# CHECK: 0274-two-models.mg:3:7: note: the first one
# CHECK-NOT: {{error|warning}}[MG
