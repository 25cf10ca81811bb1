# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = table[3]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0218-index-number.mg:6:15: error[MG0218]: an index must be of a dim, as `tokens : token(vocab)` is
# CHECK: help: `x[d = 3]` takes one element along a dim
# CHECK-NOT: {{error|warning}}[MG
