# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
config { a = 1 }
config { a = 1 }

# CHECK: 0314-two-configs.mg:10:1: error[MG0314]: a second config block
# CHECK: 0314-two-configs.mg:9:1: note: the first one
# CHECK-NOT: {{error|warning}}[MG
