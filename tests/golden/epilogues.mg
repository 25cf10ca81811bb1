# RUN: %mgc %s --precision bf16 --device h100 --print-after=epilogues | FileCheck %s
# RUN: %mgc %s --precision f32 --device h100 --print-after=epilogues | FileCheck %s --check-prefix=F32
# RUN: %mgc %s --precision bf16 --device h100 --emit=c | FileCheck %s --check-prefix=C
#
# A bias is added before a product of halves is rounded; its gradient is summed by the product that
# takes the same cotangent. gelu_tanh is part of a product, which also gives what it is computed from
# where the backward part reads that, and so is its slope, going back. In f32 nothing of the kind is done.
# CHECK: fn @train
# CHECK: bf16[batch=2, seq=3, out=4] = dot_bias %x{{.*}}, %w{{.*}}, %b
# CHECK: f32[batch=2, seq=3, out=4] = tanh
# CHECK: bf16[batch=2, seq=3, wide=8], [[Z:%.*]]: bf16[batch=2, seq=3, wide=8] = dot_gelu_aux %x{{.*}}, %w_in{{.*}}, %b_in
# CHECK: [[DZ:%.*]]: bf16[batch=2, seq=3, wide=8] = dot_gelu_grad {{%.*}}, %w_out{{.*}}, [[Z]] {over=[hidden=4]}
# CHECK: f32[hidden=4, wide=8], {{%.*}}: f32[wide=8] = dot_sum [[DZ]]
# CHECK: f32[hidden=4, out=4], {{%.*}}: f32[out=4] = dot_sum
# CHECK: guard
# F32-NOT: dot_{{bias|sum|gelu}}
# C-DAG: .epilogue = MG_BIAS}
# C-DAG: .epilogue = MG_SUM}
# C-DAG: .epilogue = MG_BIAS | MG_GELU | MG_AUX,{{[[:space:]]+}}.ldx = 8
# C-DAG: .epilogue = MG_GELU_GRAD,{{[[:space:]]+}}.ldx = 8
dim hidden = 4, out = 4, wide = 8, vocab = 8, seq = 3, batch = 2

model epilogues(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    w     : param[hidden, out] ~ normal(0.1)
    b     : param[out] = 0
    v     : param[out, hidden] ~ normal(0.1)
    w_in  : param[hidden, wide] ~ normal(0.1)
    b_in  : param[wide] = 0
    w_out : param[wide, hidden] ~ normal(0.1)
    x = embed[tokens]
    x = x + tanh(x @ w over hidden + b) @ v over out
    x = x + gelu_tanh(x @ w_in over hidden + b_in) @ w_out over wide
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
