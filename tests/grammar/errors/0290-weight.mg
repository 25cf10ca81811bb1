# RUN: %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0290-weight.mg:3:44: warning[MG0290]: input 'weight' is not read
# CHECK-NOT: {{error|warning}}[MG
