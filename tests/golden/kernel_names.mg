# RUN: %mgc %s --device h100 --emit=cuda -o - | FileCheck %s
# PTX calls the parameters of kernel d_rmsnorm d_rmsnorm_param_0, d_rmsnorm_param_1 and so on: no kernel has such a name.
dim layers = 2, hidden = 64, vocab = 256, seq = 16, batch = 4
block norm(x[hidden]) {
    gain : param[hidden] = 1
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}
block norm_param_2(x[hidden]) {
    return x * exp(-x)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.1)
    w : param[hidden] = 1
    x = norm(table[tokens]) as "first"
    repeat layers {
        v : param[hidden] = 1
        x = x + norm(norm_param_2(norm(x * v) as "one") * w) as "two"
    }
    loss = cross_entropy((norm(x) as "last") @ table over hidden, next(tokens))
}
train { optimizer adamw() lr 1e-3 }
# CHECK-NOT: _param_{{[0-9]+}}(
# CHECK: d_rmsnorm_param2(
# CHECK-NOT: _param_{{[0-9]+}}(
