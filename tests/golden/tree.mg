# RUN: %mgc %s --print-after=microbatch | FileCheck %s --check-prefix=NEST
# RUN: %mgc %s -D dp=2 --print-after=shard > %t.ir
# RUN: FileCheck %s < %t.ir
# RUN: %mgc --from=%t.ir --print-after=simplify | FileCheck %s --check-prefix=GOES
# RUN: %mgc %s -D dp=2 --plan | FileCheck %s --check-prefix=PLAN
# RUN: %mgc %s -D dp=2 --plan=json | FileCheck %s --check-prefix=JSON
# RUN: %mgc %s -D dp=2 --check --device h100
# RUN: %mgc %s --emit=cuda --device h100 | FileCheck %s --check-prefix=CUDA
#
# Eight microbatches on one rank: three loops of two in each other, an accumulator each; the layers add their
# gradients to the innermost as they are made. On two ranks two loops, and the ranks' sums are added up at the end.
# NEST: train {{.*}} compute f32 tree
# NEST: arg %tokens: i32[micro=8, batch=1, seq=9](vocab)
# NEST: [[HALVES:%split.*]]: i32[micro_4=2, micro=4, batch=1, seq=9](vocab) = split %tokens {dim=micro=4, to=micro_4=2}
# NEST: = repeat {{.*}}, [[HALVES]] {dim=micro_4=2, carried=4, reverse=no} exact {
# NEST: = repeat {{.*}} {dim=micro_2=2, carried=4, reverse=no} exact {
# NEST: = repeat {{.*}} {dim=micro=2, carried=4, reverse=no} exact {
# NEST: repeat {{.*}}dim=layers=3{{.*}}reverse=yes
# NEST: f32[hidden=32, ffn=64] = add %{{.*}}, %dot{{.*}} exact
# NEST: f64[] = add {{.*}} exact
# NEST: f64[] = add {{.*}} exact
# NEST: f64[] = add {{.*}} exact
# The norm: what is inside of the dim that may be split, then that dim, of which each rank is given all.
# CHECK: arg %tokens: i32[micro=4, batch=1@dp, seq=9](vocab)
# CHECK: dim=micro_2=2
# CHECK: dim=micro=2
# CHECK: f32[layers=3, hidden=32, ffn=32@dp] = reduce_scatter %{{.*}} {dim=ffn=64, axes=dp, tree}
# CHECK: [[PART:%sum.*]]: f64[layers=3, ffn=32@dp] = sum %{{.*}} {over=[hidden=32]}{{.*}} exact
# CHECK: [[ALL:%sum.*]]: f64[layers=3, ffn=64] = all_gather [[PART]] {dim=ffn=32@dp, axes=dp}
# CHECK: f64[] = sum [[ALL]] {over=[layers=3, ffn=64], whole}{{.*}} exact
# GOES: reduce_scatter %{{.*}} {dim=ffn=64, axes=dp, tree}
# PLAN: dp {{.*}}reduce_scatter {{.*}} n = 2, in a tree
# JSON: "kind": "reduce_scatter"
# JSON: "tree": true
# CUDA: mg_product(
dim hidden = 32, ffn = 64, vocab = 8, seq = 8, batch = 8, layers = 3

model tree(tokens[batch, seq] : token(vocab)) {
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
    precision f32(reduce = tree)
}

layout {
    device     cpu
    mesh       dp = 1
    batch      -> dp
    state      -> dp
    microbatch 1
}
