# All that the train block and layouts say.
# RUN: %front ir %s | FileCheck %s
# RUN: %front ir %s --layout small | FileCheck --check-prefix=SMALL %s
# RUN: %front ir %s --layouts %S/../accept/define.mg | FileCheck --check-prefix=OTHER %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train {
    optimizer adamw(betas = (0.8, 0.9), eps = 1e-6, decay = 0.25 where rank > 1)
    lr        linear(peak = 0.5, warmup = 3, steps = 2 * 10, floor = 0.125)
    clip      0.75
    precision f64(master = f64, reduce = f64)
}
layout {
    device cpu
    mesh   dp = 1, tp = 1
    batch  -> dp
    vocab  -> tp
    state, grads, params -> dp
    recompute none
    assert peak < 2 GiB, exposed_comm <= 5%
}
layout small : default {
    recompute auto
    microbatch 1
    pad vocab to 12
    assert peak < 500 MB
}
# CHECK: # optimizer adamw betas 0.8 0.9 eps 1e-06 momentum 0 clip 0.75
# CHECK: # lr 1 peak 0.5 floor 0.125 warmup 3 steps 20, f64
# CHECK: # layout default device cpu microbatch 2 recompute 1 peak 2.14748e+09
# CHECK: tensor "table" f64[vocab=8, hidden=2] {{.*}} decay 0.25 rate 1
# SMALL: # layout small device cpu microbatch 1 recompute 0 peak 5e+08
# SMALL: tensor "table" f64[vocab=12, hidden=2] {{.*}} valid [8, 2]
# SMALL: fn @train
# SMALL: cross_entropy {{.*}}over=[vocab=12], valid=8
# SMALL: fn @eval
# SMALL: arg %tokens: i32[batch=1, seq=5](vocab)
# OTHER: # layout default device cpu microbatch 2 recompute 0 peak 0
