# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# CHECK: stages_kinds.mg:[[#]]:5: error[MG0343]: no layer hands anything on to the next: 'layers' are no stages
# CHECK: help: stages are cut out of a loop: the layers of `repeat ... at l` whose numbers all differ by `l` are each by itself, and make none
dim batch = 4, layers = 2, hidden = 8

model m(x[batch, hidden]) {
    repeat layers at l {
        w : param[hidden] ~ normal(0.02)
        x = x + x * w / (l + 1)
    }
    loss = mean(x)
}

train {
    optimizer sgd()
    lr        1e-3
}

layout {
    device cpu
    mesh   pp = 2
    layers -> pp
    microbatch 2
}
