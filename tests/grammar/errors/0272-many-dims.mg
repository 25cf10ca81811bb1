# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, a = 2, b = 2, c = 2, d = 2, e = 2, f = 2, g = 2
model m(x[batch, a, b, c, d, e, f, g]) {
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0272-many-dims.mg:3:9: error[MG0272]: an input of 8 dims; the limit is 7
# CHECK-NOT: {{error|warning}}[MG
