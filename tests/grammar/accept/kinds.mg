# `repeat d at l`: iterations that are alike share a loop, a single one has none; names have the numbers of the iterations.
# RUN: %front ir %s | FileCheck %s
dim layers = 7
dim batch = 2, seq = 4, vocab = 8, hidden = 2, wide = 3
const first = 1

block half(x[hidden]) {
    a : param[hidden] = 1
    return x * a
}

block whole(x[hidden]) {
    w : param[hidden, wide] ~ normal(0.02)
    return sum(x @ w over hidden, over wide)
}

model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers at l as "h.{}" {
        shift : param[hidden] = select(l < first, 1, 2)
        every = select(l < first, 1, 2)
        kind = (l + 1) % every
        x = x + select(kind == 0, half(x) as "half", whole(x)) + shift
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  rate 0.5 where "h.{}.half.*" }
# CHECK: tensor "layers_0.shift" f32[hidden=2] external "h.0.shift" slot "" of 1 stacked 0 valid [2] order [0] merge [1] init const 1 0
# CHECK: tensor "layers_0.half.a" f32[hidden=2] external "h.0.half.a" slot "" of 2 stacked 0 valid [2] order [0] merge [1] init const 1 0 decay 0 rate 0.5
# CHECK: tensor "layers_1.shift" f32[layers_2=3, hidden=2] external "h.{1+2i}.shift" slot "" of 3 stacked 1 valid [3, 2] order [1] merge [1] init const 2 0
# CHECK: tensor "layers_1.half.a" f32[layers_2=3, hidden=2] external "h.{1+2i}.half.a" {{.*}} rate 0.5
# CHECK: tensor "layers_2.shift" f32[layers_2=3, hidden=2] external "h.{2+2i}.shift"
# CHECK: tensor "layers_2.whole.w" f32[layers_2=3, hidden=2, wide=3] external "h.{2+2i}.w"
# CHECK-NOT: tensor
# CHECK: fn @train
# CHECK: = repeat {{.*}} {dim=layers_2=3, carried=1
# CHECK-NOT: = repeat
# CHECK: fn @eval
