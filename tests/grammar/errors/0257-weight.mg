# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    w : param[vocab, hidden] = 0
    loss = cross_entropy(w[tokens] @ w over hidden, next(tokens), sum(weight, over seq))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0257-weight.mg:5:{{[0-9]+}}: error[MG0257]: the targets have [batch, seq], their weights [batch]
# CHECK: help: a weight for each target
# CHECK-NOT: {{error|warning}}[MG
