# RUN: not %front check %s 2>&1 | FileCheck %s
block f(x) {
    return x
}
block f(x) {
    return x
}
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0202-block-twice.mg:5:7: error[MG0202]: 'f' is the name of a block already
# CHECK: 0202-block-twice.mg:2:7: note: declared here
# CHECK-NOT: {{error|warning}}[MG
