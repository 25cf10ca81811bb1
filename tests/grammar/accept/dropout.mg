# Dropout draws by (seed, step, iteration of the repeats); only training has it.
# RUN: %front ir %s | FileCheck %s
dim outer = 3, inner = 5
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat outer {
        repeat inner {
            x = x + dropout(x, p = 0.5) + dropout(x, p = 0)
        }
    }
    x = dropout(x, p = 0.25)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @train
# CHECK: role tokens
# CHECK: role step
# CHECK: role seed
# CHECK: [[S:%.*]]: i32[] = const {value=5}
# CHECK: [[M:%.*]]: i32[] = mul %outer{{.*}}, [[S]]
# CHECK: [[I:%.*]]: i32[] = add %inner{{.*}}, [[M]]
# CHECK: random %seed, %step, [[I]] {key="outer.inner.dropout"}
# CHECK: random %seed, %step, {{.*}} {key="dropout"}
# CHECK: fn @eval
# CHECK-NOT: random
