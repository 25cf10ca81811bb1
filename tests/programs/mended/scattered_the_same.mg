# A gradient that is the same in all iterations of a scan, added at indices that are not.
dim group = 23, hidden = batch / 2, batch = 4, row = 1
dim seq = 4, classes = 2
model m(x3[batch, hidden, seq], y4[batch, hidden] : token(classes)) {
    w9 : param[row, group, classes] ~ normal(9) as "w9.bias"
    scan hidden {
        v8 = mean(w9[y4] * 2, over (row, group))
        v12 = x3
    }
    head14 : param[seq, classes] = 0.1
    loss = cross_entropy(v12 @ head14 over seq, y4) + 0.01 * mean(v8)
}
train { optimizer lion() lr constant(peak = 1) }
