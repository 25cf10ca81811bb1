# A file's optimizers: settings with ranges of their own and the language's, states of all shapes, the language's optimizer
# for the rest, blocks and constants of the file. The words of optimizers are names everywhere else.
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s | FileCheck %s --check-prefix=SAME
const half = 0.5
setting -1 <= tilt < 1
setting warm
dim batch = 2, seq = 4, vocab = 8, hidden = 3

block damped(x, by =) {
    return x * by * half
}

optimizer _later(momentum = 0.9) {
    state m
    m = momentum * m + g
    p = p - lr * m
}

optimizer whole(beta1 = 0.8, tilt = -0.5, warm = 1, free = 100, decay = 0) {
    state m = 0.25 as "first", n where warm != 0
    state row[rows], col[cols] = -1
    state v where matrix == 0
    state seen[] = 1
    row = select(matrix, average(row, mean(g * g, over cols), beta = beta1), 0)
    col = select(matrix, average(col, mean(g * g, over rows), beta = beta1), 0)
    v = select(matrix, 0, average(v, g * g, beta = beta1))
    seen = seen * 2
    m = damped(m + g, by = beta1)
    n = n + g * tilt
    p = decayed(p, lr, decay = decay)
    p = p - lr * (m + n) / free / seen * select(matrix, row * col, v)
}

model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    state = table[tokens]
    rest = state
    setting = rest + state
    optimizer = setting
    loss = cross_entropy(optimizer @ table over hidden, next(tokens))
}

train {
    optimizer whole(tilt = 0.5, decay = 0.1)
    lr        0.1
}
# CHECK: # optimizer whole betas 0.8 0 eps 0 momentum 0 clip 0
# CHECK: train declared "whole" own "tilt" 0.5 own "warm" 1 own "free" 1e+02 beta1 0.8
# CHECK: tensor "table" {{.*}} decay 0.1 rate 1
# SAME: text same, tree same, comments same
