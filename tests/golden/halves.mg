# RUN: %mgc %s --precision bf16 --print-after=precision | FileCheck %s
# RUN: %mgc %s --precision bf16 --device h100 --print-after=precision | FileCheck %s
# RUN: %mgc %s --precision f16 --device h100 --print-after=update | FileCheck %s --check-prefix=F16
# RUN: %mgc %s --precision bf16 --device h100 --print-after=simplify > %t.ir
# RUN: %mgc --from=%t.ir --device h100 --check | FileCheck %s --check-prefix=FITS
#
# Parameters are rounded once, at the top; what is multiplied, what is carried and what two halves add
# up to are halves; arithmetic is f32; gradients of parameters are summed in f32.
# CHECK: train sgd {{.*}} compute f32 half bf16
# CHECK: fn @train
# CHECK: arg %w: f32[layers=2, hidden=4, out=4]
# CHECK: [[W:%w.1]]: bf16[layers=2, hidden=4, out=4] = cast %w
# CHECK: bf16[batch=2, seq=3, hidden=4] = repeat {{.*}}[[W]]
# CHECK: arg [[X:%x.[0-9]+]]: bf16[batch=2, seq=3, hidden=4]
# CHECK: arg [[S:%w.[0-9]+]]: bf16[hidden=4, out=4]
# CHECK: bf16[batch=2, seq=3, out=4] = dot [[X]], [[S]]
# CHECK: f32[batch=2, seq=3, out=4] = tanh
# CHECK: [[SUM:%x.[0-9]+]]: f32[batch=2, seq=3, hidden=4] = add
# CHECK: [[NEXT:%x.[0-9]+]]: bf16[batch=2, seq=3, hidden=4] = cast [[SUM]]
# CHECK: give [[NEXT]]
# F16: train sgd {{.*}} compute f32 half f16 scale 65536 least 1 window 1000 hysteresis 2
# F16: role scale
# F16: arg %scale: f64[]
# F16: f32[hidden=4, out=4] = dot
# F16: f64[] = div %{{.*}}, %scale
# F16: f64[] = div %{{.*}}, %scale
# F16: guard
# FITS: halves: 1 rank
dim hidden = 4, out = 4, vocab = 8, seq = 3, batch = 2, layers = 2

model halves(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        w : param[hidden, out] ~ normal(0.1)
        v : param[out, hidden] ~ normal(0.1)
        x = x + tanh(x @ w over hidden) @ v over out
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 1e-2)
    clip      1.0
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 2
    recompute  auto
}
