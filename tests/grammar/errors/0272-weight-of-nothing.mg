# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    w : param[vocab] = 0
    loss = mean(w[tokens] * weight)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0272-weight-of-nothing.mg:3:44: error[MG0272]: the weights are those of next(tokens), which is not used
# CHECK-NOT: {{error|warning}}[MG
