# What a name was given and lost: replaced, or left at the end, in a block and in a repeat; what a repeat makes for nothing. What is
# read by the next iteration, by a branch that is not taken, or by a metric is used; and `_` says that it is not.
# RUN: %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2, inner = 2, _spare = 5
const on = 0, _off = 1, half = 1 / 2, scaled = select(on, half, 1)
block _later(x) {
    return x
}
block f(x, along pos, over d, _scale = 2, shown) {
    dim t = d
    u = 3 * x
    v = x + 1
    v = tanh(x)
    return select(shown, u, v)
}
block pair(x, _ids : token(c)) {
    return x, 2 * x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    _w : param[hidden] = 0
    x = table[tokens]
    loss = mean(x)
    scale = 1
    total = 0 * scaled
    h = x
    y = x
    repeat layers {
        scale = 0.5 * scale
        h = h + scale * f(h, along seq, over hidden)
        total = total + mean(h)
        repeat inner {
            y = tanh(y)
        }
        part = 2 * h
        part = h
        last = part
        last = h
    }
    a, _b = pair(x, tokens)
    b = select(on, a, x)
    loss = cross_entropy(h @ table over hidden, next(tokens))
    metric size = mean(b)
    h = x
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0290-lost.mg:12:5: warning[MG0290]: this value of 'v' is not used
# CHECK: 0290-lost.mg:13:5: note: it is replaced here
# CHECK: 0290-lost.mg:9:18: warning[MG0290]: dim 'pos' is not used
# CHECK: 0290-lost.mg:10:9: warning[MG0290]: dim 't' is not used
# CHECK: 0290-lost.mg:35:9: warning[MG0290]: this value of 'part' is not used
# CHECK: 0290-lost.mg:36:9: note: it is replaced here
# CHECK: 0290-lost.mg:37:9: warning[MG0290]: this value of 'last' is not used
# CHECK: 0290-lost.mg:38:9: note: it is replaced here
# CHECK: 0290-lost.mg:23:5: warning[MG0290]: this value of 'loss' is not used
# CHECK: 0290-lost.mg:42:5: note: it is replaced here
# CHECK: 0290-lost.mg:31:9: warning[MG0290]: 'total' is read by itself alone: nothing uses it after the repeat
# CHECK: 0290-lost.mg:44:5: warning[MG0290]: this value of 'h' is not used
# CHECK: 0290-lost.mg:33:13: warning[MG0290]: 'y' is read by itself alone: nothing uses it after the repeat
# CHECK-NOT: {{error|warning}}[MG
