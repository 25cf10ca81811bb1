# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = rmsnorm(x, 1, over hidden, eps = 1e-5, eps = 1e-6)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0242-twice.mg:6:48: error[MG0242]: 'eps' is given twice
# CHECK-NOT: {{error|warning}}[MG
