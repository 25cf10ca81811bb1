# RUN: not %front check %s -D hidden 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: -D:1:1: error[MG0305]: -D takes NAME=VALUE
# CHECK-NOT: {{error|warning}}[MG
