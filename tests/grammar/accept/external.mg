# External names and orders: the number of a dim or constant in braces, in the names of calls, repeats, instances and parameters; a
# block's list of dims, merged.
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 8, hidden = 6, heads = 3, size = 2, layers = 2
const of = 7
block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.02) as "weight" [(into), (from)]
    b : param[into]       = 0 as "{of}_{layers}.bias" [(into)]
    return x @ w over from + b
}
model m(tokens[batch, seq] : token(vocab)) {
    twice : block dense as "twice.{layers}"
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers as "{of}.{}" {
        y = dense(x, over hidden, over (heads, size)) as "in.{heads}"
        x = x + dense(y, over (heads, size), over hidden) as "out"
    }
    z = twice(x, over hidden, over (heads, size))
    loss = cross_entropy(z @ table[hidden -> (heads, size)] over (heads, size), next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: tensor "layers.in._heads_.w" f32[layers=2, hidden=6, heads=3, size=2] external "7.{}.in.3.weight"
# CHECK-SAME: order [2, 3, 1] merge [2, 1]
# CHECK: external "7.{}.in.3.7_2.bias"
# CHECK-SAME: order [1, 2] merge [2]
# CHECK: external "7.{}.out.weight"
# CHECK-SAME: order [3, 1, 2] merge [1, 2]
# CHECK: external "twice.2.weight"
