dim group = 2, hidden = batch / 2, batch = 4, row = 1, seq = 6, classes = 3
model m(x3[batch, hidden, seq], y4[batch, hidden] : token(classes)) {
    p6 : param[seq, hidden] = 0.5
    w9 : param[row, group, classes] ~ normal(0.1) as "w9.bias"
    scan hidden {
        v8 = mean((p6 * w9)[y4], over (row, group))
        v12 = x3 + softmax(v8, over (seq))
    }
    head14 : param[seq, classes] = 0.1
    loss = cross_entropy(v12 @ head14 over seq, y4) + 0.01 * mean(v8)
}
train { 
    optimizer lion()
    lr constant(peak = 1, steps = 4)
    precision f32(reduce = tree)
}
