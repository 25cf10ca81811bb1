# RUN: %mgc %s -D dp=2 -D tp=2 --print-after=shard > %t.ir
# RUN: FileCheck %s < %t.ir
# RUN: %mgc --from=%t.ir --print-after=simplify | FileCheck %s --check-prefix=GOES
# RUN: not %mgc %s -D dp=512 -D batch=1024 --device h200 --emit=c 2>&1 | FileCheck %s --check-prefix=ONE
# RUN: sed 's/ microbatch 2/ microbatch 2  pad none/' %s > %t.none.mg
# RUN: not %mgc %t.none.mg -D tp=3 -D seq=12 --print-after=shard 2>&1 | FileCheck %s --check-prefix=UNEVEN
#
# Two products, the first split on what it makes and the second on what it sums; rows of the sequence are split
# between them, gathered before and scattered after. Gradients are added up after the loop over microbatches, into
# the parts that the optimizer's state is in.
# GOES: f32[batch=2@dp, seq=4@tp, hidden=32] = reduce_scatter
# ONE: error[MG0310]: the mesh has 512 ranks: programs of more than 256 are not built yet
# UNEVEN: error[MG0332]: 'ffn' of 64 is not split evenly on tp, which is 3 ranks
# UNEVEN: help: -D tp=2
# UNEVEN: help: -D tp=4
# UNEVEN: help: -D ffn=66
# CHECK: axis dp 2
# CHECK: axis tp 2
# CHECK: rule batch on dp
# CHECK: rule ffn on tp
# CHECK: rule class state on dp
# CHECK: tensor "layers.w" f32[layers=3, hidden=32, ffn=32@tp]
# CHECK: tensor "exp_avg.layers.w" f32[layers=3, hidden=16@dp, ffn=32@tp]
# CHECK: fn @train
# CHECK: arg %tokens: i32[micro=2, batch=2@dp, seq=9](vocab)
# CHECK: repeat
# CHECK: [[X:%x.[0-9]+]]: f32[batch=2@dp, seq=8, hidden=32] = all_gather %{{.*}} {dim=seq=4@tp, axes=tp}
# CHECK: f32[batch=2@dp, seq=8, ffn=32@tp] = dot [[X]]
# CHECK: [[Y:%dot.[0-9]+]]: f32[batch=2@dp, seq=8, hidden=32]{partial: tp} = dot
# CHECK: f32[batch=2@dp, seq=4@tp, hidden=32] = reduce_scatter [[Y]] {dim=seq=8, axes=tp}
# CHECK: f32[layers=3, hidden=16@dp, ffn=32@tp] = reduce_scatter %{{.*}} {dim=hidden=32, axes=dp}
# CHECK: guard
# CHECK: f32[layers=3, hidden=32, ffn=32@tp] = all_gather %{{.*}} {dim=hidden=16@dp, axes=dp}
dim hidden = 32, ffn = 64, vocab = 8, seq = 8, batch = 8, layers = 3

model sharded(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        w : param[hidden, ffn] ~ normal(0.1)
        v : param[ffn, hidden] ~ normal(0.1)
        x = x + tanh(x @ w over hidden) @ v over ffn
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
    clip      1.0
}

layout {
    device     cpu
    mesh       dp = 1, tp = 1
    batch      -> dp
    ffn        -> tp
    seq        -> tp
    state      -> dp
    microbatch 2
}
