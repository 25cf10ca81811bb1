# Dims given to blocks, local dims, lists of dims, dims as numbers; options and flags.
# RUN: %front ir %s | FileCheck %s
dim a = 3, b = 5
dim batch = 2, seq = 4, vocab = 8, hidden = 2
block spread(x, over d, along s, power = 2, shift =, absolute) {
    dim t = s
    gap = index(s) - index(t)
    y = pow(x, power) + shift * s / d + select(absolute, abs(gap), gap)
    return sum(y, over (t, d))
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hidden, a, b] ~ uniform(0 - 1, 1)
    y = x @ w over hidden
    u = spread(y, over (a, b), along seq, shift = 3)
    v = spread(y, over a, along seq, shift = 1, power = 3, absolute)
    loss = mean(u) + mean(v)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @train
# CHECK: iota {dim=t=4}
# CHECK: const {value=0.8}
# CHECK: sum {{.*}}over=[t=4, a=3, b=5]
# CHECK: iota {dim=t=4}
# CHECK: = abs
# CHECK: sum {{.*}}over=[t=4, a=3]
