# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, hidden = 3
model m(x[batch, hidden]) {
    w : param[hidden, out] ~ normal(1)
    y = z + x
    dim out = hidden
    z = x
    loss = mean(y) + mean(w)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0203-later.mg:4:23: error[MG0203]: unknown dim 'out'
# CHECK: 0203-later.mg:6:9: note: it has this name only from here on
# CHECK: help: a body is read from top to bottom: put what gives 'out' before what reads it
# CHECK: 0203-later.mg:5:9: error[MG0201]: unknown name 'z'
# CHECK: 0203-later.mg:7:5: note: it has this name only from here on
# CHECK-NOT: {{error|warning}}[MG
