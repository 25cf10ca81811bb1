# Rules for some parameters: the last that holds wins, and the optimizer's own comes first.
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s | FileCheck --check-prefix=SAME %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
block layer(x[hidden]) {
    w : param[hidden] = 1 as "proj.weight"
    b : param[hidden] = 0 as "proj.bias"
    return x * w + b
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    x = table[tokens]
    repeat layers as "layers.{}" {
        x = layer(x) as "mlp"
    }
    head : param[hidden, vocab] ~ normal(0.02) as "head.weight"
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train {
    decay  0.5 where "layers.*"
    decay  0 where "*.bias"
    optimizer muon(decay = 0.25 where rank >= 2)
    lr     wsd(peak = 0.1, warmup = 2, steps = 10, last = 4, shape = sqrt)
    rate   0.1 where vocab
    rate   2 where "head.*"
    frozen where "embed*"
}
# CHECK: # optimizer muon betas 0.9 0.95 eps 1e-08 momentum 0.95 clip 0
# CHECK: # lr 3 peak 0.1 floor 0 warmup 2 steps 10, f32
# CHECK: tensor "table" {{.*}} decay 0.25 rate 0.1 frozen
# CHECK: tensor "layers.mlp.w" {{.*}} decay 0.5 rate 1
# CHECK: tensor "layers.mlp.b" {{.*}} decay 0 rate 1
# CHECK: tensor "head" {{.*}} decay 0.25 rate 2
# SAME: text same, tree same, comments same
