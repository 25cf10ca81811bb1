# Noise draws by (seed, step, iteration of the repeats), the batch first. An evaluation draws by (seed, -1 - iteration): its rows are
# counted by pass evaluate. A prelude's function may draw, too.
# RUN: %front ir %s | FileCheck %s
dim outer = 3
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens] + uniform(over (hidden, batch))
    repeat outer {
        x = x + uniform(over hidden) * step()
    }
    x = x + normal(over hidden)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @train
# CHECK: %random: f32[batch=2, hidden=2] = random %seed, %step, {{.*}} {key="uniform"}
# CHECK: copy %random
# CHECK: random %seed, %step, %outer {key="outer.uniform"}
# CHECK: f32[] = cast %step
# CHECK: random %seed, %step, {{.*}} {key="uniform_2"}
# CHECK: random %seed, %step, {{.*}} {key="uniform_3"}
# CHECK: fn @eval
# CHECK: [[ONE:%.*]]: i64[] = const {value=-1}
# CHECK: random %seed, [[ONE]], {{.*}} {key="uniform"}
# CHECK: [[BEFORE:%.*]]: i32[] = sub {{.*}}, %outer
# CHECK: [[STEP:%.*]]: i64[] = cast [[BEFORE]]
# CHECK: random %seed, [[STEP]], {{.*}} {key="outer.uniform"}
# CHECK: f32[] = cast %step
