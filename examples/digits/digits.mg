# digits.mg - two convolutions and a pool behind each name the digit of an image.
dim row = 12, col = 12, down = 3, across = 3, first = 16, second = 32, two = 2, pair = 2
dim half_row = row / 2, half_col = col / 2, last_row = row / 4, last_col = col / 4
dim classes = 10, batch = 64

# The image as the taps of a kernel of 3 by 3 see it, zero outside: two dims more.
block seen(x, along r, along c) {
    return x[r + down - 1, c + across - 1]
}

block pool(x, along r, along c, along rr, along cc) {
    return max(x[r = 2 * rr + two, c = 2 * cc + pair], over (two, pair))
}

model digits(image[batch, row, col], label[batch] : token(classes)) {
    k1 : param[down, across, first]                 ~ normal(0.3) as "conv1.weight" [first, down, across]
    b1 : param[first]                               = 0 as "conv1.bias"
    k2 : param[down, across, first, second]         ~ normal(0.1) as "conv2.weight" [second, first, down, across]
    b2 : param[second]                              = 0 as "conv2.bias"
    w  : param[second, last_row, last_col, classes] ~ normal(0.05) as "head.weight" [classes, (second last_row last_col)]
    b  : param[classes]                             = 0 as "head.bias"
    h = relu(seen(image, along row, along col) @ k1 over (down, across) + b1)
    h = pool(h, along row, along col, along half_row, along half_col)
    h = relu(seen(h, along half_row, along half_col) @ k2 over (down, across, first) + b2)
    h = pool(h, along half_row, along half_col, along last_row, along last_col)
    logits = dropout(h, p = 0.2) @ w over (second, last_row, last_col) + b
    loss = cross_entropy(logits, label)
    metric accuracy = mean(in_top(logits, label))
    metric top2 = mean(in_top(logits, label, best = 2))
}

train {
    optimizer adamw(decay = 0.01 where rank >= 2)
    lr        cosine(peak = 3e-3, warmup = 20, steps = 400)
}

layout {
    device     cpu
    microbatch 64
}
