# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim other = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[other, hidden] = 0
    y = x @ w over vocab
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0213-neither.mg:8:20: error[MG0213]: 'vocab' cannot be summed: neither side has no such dim
# CHECK: 0213-neither.mg:8:9: note: left:  [batch, seq, hidden]
# CHECK: 0213-neither.mg:8:13: note: right: [other, hidden]
# CHECK: help: they share hidden: `over hidden`
# CHECK-NOT: {{error|warning}}[MG
