# Instances of blocks: one set of parameters for all calls; one for each iteration where a repeat has the declaration, and one for
# all iterations where it has only calls; in a scan; in a block that is an instance itself.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim outer = 2, layers = 3, hidden = 8, batch = 4, seq = 5, vocab = 16
block mix(x[hidden], half) {
    dim t = hidden
    w : param[hidden, t] ~ normal(0.3) as "weight" [t, hidden]
    return half * tanh(x @ w over hidden)[t -> hidden]
}
block layer(x[hidden]) {
    inner : block mix as "inner"
    return inner(x, 0.5) + inner(x + inner(x, 1), 2)
}
block encoder(x) {
    repeat layers as "layers.{}" {
        mlp : block layer as "mlp"
        x = mlp(x) + mlp(2 * x)
    }
    return x
}
model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    tower : block encoder as "tower"
    cell  : block mix as "cell"
    every : block mix
    x = tower(embed[tokens])
    repeat outer {
        x = every(tower(x), 1)
    }
    h = 0 * embed[last(tokens, along seq)]
    scan seq {
        h = cell(h, 1) + x
        y = h
    }
    loss = cross_entropy(y @ embed over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CLEAN-NOT: MG
# CHECK: tensor "embed" f32[vocab=16, hidden=8]
# CHECK: tensor "tower.layers.mlp.inner.w" f32[layers=3, hidden=8, t=8] external "tower.layers.{}.mlp.inner.weight"
# CHECK-NEXT: tensor "every.w" f32[hidden=8, t=8] external "weight"
# CHECK-NEXT: tensor "cell.w" f32[hidden=8, t=8] external "cell.weight"
# CHECK-NOT: tensor
# CHECK: fn @train
