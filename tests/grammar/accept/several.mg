# Several results of a block: of different dims, a number among them; in a repeat, which carries
# what they are named; out of another block; and `sign`.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
block direction(x, over d) {
    size = sqrt(sum(x * x, over d) + 0.1)
    return x / size, size, 0.5
}
block turned(x, over d) {
    unit, size, half = direction(x, over d)
    return half * sign(unit), size
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    size = sum(x, over hidden)
    repeat layers {
        x, size = turned(x, over hidden)
        x = x + 0.1 * size
    }
    x, penalty = select(hidden > 2, turned(x, over hidden), direction(x, over hidden))
    loss = cross_entropy(x @ table over hidden, next(tokens)) + mean(penalty) + mean(size)
}
train { optimizer sgd()  lr 0.1 }
# CLEAN-NOT: MG
# CHECK: fn @train
# CHECK: repeat
# CHECK: div
# CHECK: sign
# CHECK: sign
