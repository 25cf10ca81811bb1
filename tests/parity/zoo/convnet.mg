# convnet.mg - convolutions over images, zero outside, and pools that take the largest of two by two.
dim row = 8, col = 8, colour = 2, down = 3, across = 3, first = 8, second = 8, two = 2, pair = 2
dim half_row = row / 2, half_col = col / 2, last_row = half_row / 2, last_col = half_col / 2
dim classes = 4, batch = 4

# The images, seen from the taps of a 3 by 3 kernel: two more dims.
block seen(x, along r, along c) {
    return x[r + down - 1, c + across - 1]
}

block pool(x, along r, along c, along rr, along cc) {
    return max(x[r = 2 * rr + two, c = 2 * cc + pair], over (two, pair))
}

model convnet(x[batch, colour, row, col], y[batch] : token(classes)) {
    k1 : param[first, colour, down, across]         ~ normal(0.3) as "conv1.weight"
    b1 : param[first]                               = 0 as "conv1.bias"
    k2 : param[second, first, down, across]         ~ normal(0.3) as "conv2.weight"
    b2 : param[second]                              = 0 as "conv2.bias"
    w  : param[classes, second, last_row, last_col] ~ normal(0.3) as "head.weight" [classes, (second last_row last_col)]
    b  : param[classes]                             = 0 as "head.bias"
    h = relu(seen(x, along row, along col) @ k1 over (colour, down, across) + b1)
    h = pool(h, along row, along col, along half_row, along half_col)
    h = relu(seen(h, along half_row, along half_col) @ k2 over (first, down, across) + b2)
    h = pool(h, along half_row, along half_col, along last_row, along last_col)
    loss = cross_entropy(h @ w over (second, last_row, last_col) + b, y)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
