# RUN: not %front check %s -D hiden=4 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: -D:1:1: error[MG0304]: -D: there is no dim, constant or mesh axis 'hiden'
# CHECK: help: did you mean 'hidden'?
# CHECK-NOT: {{error|warning}}[MG
