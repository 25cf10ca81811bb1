# Parameters inside repeats are stored once, the dims of the repeats in front; names have a hole each.
# RUN: %front ir %s | FileCheck %s
dim outer = 3, inner = 5
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat outer as "stage.{}" {
        a : param[hidden] = 1
        repeat inner {
            b : param[hidden, seq] = 0 as "bias" [seq, hidden]
            x = x + b
        }
        x = x * a
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: tensor "outer.a" f32[outer=3, hidden=2] external "stage.{}.a" slot "" of 1 stacked 1 valid [3, 2] order [1] merge [1] init const 1 0
# CHECK: tensor "outer.inner.b" f32[outer=3, inner=5, hidden=2, seq=4] external "stage.{}.inner.{}.bias" slot "" of 2 stacked 2 valid [3, 5, 2, 4] order [3, 2] merge [1, 1] init const 0 0
# CHECK: fn @train
# CHECK: [[X:%x.*]]: f32[batch=2, seq=4, hidden=2] = gather
# CHECK: = repeat [[X]], %a, %b {dim=outer=3, carried=1
# CHECK: arg %b{{.*}}: f32[inner=5, hidden=2, seq=4]
# CHECK: = repeat {{.*}} {dim=inner=5, carried=1
# CHECK: arg %b{{.*}}: f32[hidden=2, seq=4]
