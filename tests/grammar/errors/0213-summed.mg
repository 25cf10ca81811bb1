# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[seq, vocab] = 0
    y = x @ w over hidden
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0213-summed.mg:7:20: error[MG0213]: 'hidden' cannot be summed: the right side has no such dim
# CHECK: 0213-summed.mg:7:9: note: left:  [batch, seq, hidden]
# CHECK: 0213-summed.mg:7:13: note: right: [seq, vocab]
# CHECK: help: they share seq: `over seq`
# CHECK-NOT: {{error|warning}}[MG
