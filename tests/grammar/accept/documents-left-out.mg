# A call of document_start that a number leaves out asks the data for nothing, and weights are what they are.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
const packed = 0
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    start = select(packed, document_start(tokens, along seq), 0)
    loss = cross_entropy(rope(x, start, along seq, over hidden) @ table over hidden, next(tokens), weight)
}
train { optimizer sgd()  lr 0.1 }
# CHECK-NOT: {{role documents|arg %documents|%counted}}
# CHECK: = cast %weight @
# CHECK-NOT: {{role documents|arg %documents|%counted}}
