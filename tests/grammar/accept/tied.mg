# A parameter used twice is one tensor.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
block head(x, w[vocab, hidden]) {
    return x @ w over hidden
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(head(x, table), next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: tensor "table"
# CHECK-NOT: tensor
# CHECK: fn @train
