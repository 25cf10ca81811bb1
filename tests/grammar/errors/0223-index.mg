# RUN: not %front check %s 2>&1 | FileCheck %s
dim n = 4
const a = index(n)
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0223-index.mg:3:11: error[MG0223]: 'index' is a tensor; a number is wanted here
# CHECK-NOT: {{error|warning}}[MG
