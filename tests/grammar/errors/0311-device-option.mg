# RUN: not %front check %s --device a100 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: mgc: error[MG0311]: device a100 is not built yet
# CHECK: help: device cpu
# CHECK-NOT: {{error|warning}}[MG
