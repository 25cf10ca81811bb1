# A value lies with its batch first, whichever side has it: `b + x`, `w @ x` and `join(b, x, ..)` make the products of `x + b`,
# `x @ w` and so on: three dims merge to the rows of one product.
# RUN: %mgc --emit=c %s -o %t 2> %t.err
# RUN: FileCheck %s --input-file=%t
# CHECK: PRODUCT({{.*}} gemm_144x48x32
# CHECK-NOT: gemm_{{[0-9]+}}x16x
dim hidden = 32, ffn = 48, seq = 8, all = seq + 1, one = 1, batch = 16

model m(x[batch, seq, hidden]) {
    b : param[seq, hidden] = 0 as "b"
    a : param[hidden]      = 0 as "a"
    w : param[hidden, ffn] ~ normal(0.02) as "w"
    v : param[ffn, hidden] ~ normal(0.02) as "v"
    h = join(expand(a, over one), select(index(seq) == 0, b, b + x), (one, seq) -> all)
    y = v @ gelu(w @ h over hidden) over ffn
    loss = mean(y * y)
}

train {
    optimizer sgd()
    lr        0.1
}

layout {
    device     cpu
    microbatch 16
}
