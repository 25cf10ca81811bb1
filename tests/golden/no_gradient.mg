# RUN: %mgc %s --check 2>&1 | FileCheck %s
# RUN: sed 's/^ *lr .*/    lr 0.1  frozen where "bound", "index"/' %s > %t.mg
# RUN: %mgc %t.mg --check 2>&1 | FileCheck %s --check-prefix=FROZEN
#
# A warning names what training leaves as it is: parameters that reach the loss by comparisons alone, or only
# by values that nothing reads. Those that the train block freezes are meant to be, and one that
# nothing reads at all is told once.
# CHECK: no_gradient.mg:[[#BOUND:]]:5: warning[MG0292]: parameter 'bound' gets no gradient
# CHECK: help: {{.*}}frozen where
# CHECK: warning[MG0292]: parameter 'aside' gets no gradient
# CHECK-NOT: warning[MG0292]
# FROZEN-NOT: 'bound'
# FROZEN: warning[MG0292]: parameter 'aside' gets no gradient
# FROZEN-NOT: warning[MG0292]
dim batch = 4, width = 8

model m(x[batch, width], y[batch, width]) {
    bound : param[width] = 0 as "bound"
    aside : param[width] = 1 as "aside"
    alone : param[width] = 1 as "alone"
    index : param[width] = 1 as "index"
    v     : param[width] = 1 as "v"
    dead = aside * x
    z = select(x < bound, v, 2 * v) * x * index
    loss = mean((z - y) * (z - y))
}

train {
    optimizer sgd()
    lr 0.1
}
