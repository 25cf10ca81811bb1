# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8
model m(x[batch, seq], y[seq] : token(vocab)) {
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0272-two-inputs.mg:3:24: error[MG0272]: the first dim of all inputs is one: the batch
# CHECK: help: model m(tokens[batch, seq] : token(vocab))
# CHECK-NOT: {{error|warning}}[MG
