# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(x) {
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0272-input.mg:3:9: error[MG0272]: an input has dims, the batch first
# CHECK: help: model m(tokens[batch, seq] : token(vocab)), perhaps with weight[batch, seq], or by name from a file: m(x[batch, features], y[batch] : token(classes))
# CHECK-NOT: {{error|warning}}[MG
