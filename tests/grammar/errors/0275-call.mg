# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, width = 4
block scaled(a[width]) {
    v : param[width] = 1 as "v"
    return a * v
}
model m(x[batch, width], y[batch, width]) {
    z = scaled(x) as ""
    loss = mean((z - y) * (z - y))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0275-call.mg:8:9: error[MG0275]: the name of a call is empty
# CHECK: help: without `as ""` the parameters have the names that they have by themselves
# CHECK-NOT: {{error|warning}}[MG
