# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hidden, seq] = 0 as "w" [hidden, hidden]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0261-order-twice.mg:6:48: error[MG0261]: 'hidden' stands twice in the external order
# CHECK-NOT: {{error|warning}}[MG
