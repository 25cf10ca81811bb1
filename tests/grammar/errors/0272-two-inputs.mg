# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    loss = 1
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0272-two-inputs.mg:3:7: error[MG0272]: a model has one input: its tokens
# CHECK: help: model m(tokens[batch, seq] : token(vocab))
# CHECK-NOT: {{error|warning}}[MG
