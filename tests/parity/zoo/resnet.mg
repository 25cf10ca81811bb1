# resnet.mg - a residual network: norms of one image, a stride, a shortcut of one pixel, a dilation, groups of channels, channels
# by themselves, and a mean as a pool. Weights lie as products read them, and are called as PyTorch's in files.
dim row = 8, col = 8, colour = 3, down = 3, across = 3, wide = 6, next = wide, half_row = row / 2, half_col = col / 2
dim group = 2, each = 4, deep = group * each, out = each, classes = 4, batch = 4

block norm(x, over c) {
    gain : param[c] = 1 as "weight"
    bias : param[c] = 0 as "bias"
    return layernorm(x, gain, bias, over c, eps = 1e-5)
}

# A 3 by 3 convolution of the same size.
block conv(x, along r, along c, over d, over o) {
    w : param[down, across, d, o] ~ normal(0.3) as "weight" [o, d, down, across]
    return x[r + down - 1, c + across - 1] @ w over (down, across, d)
}

block of_groups(x, along r, along c) {
    w : param[group, down, across, each, out] ~ normal(0.3) as "weight" [(group out), each, down, across]
    y = x[deep -> (group, each)][r + 2 * down - 2, c + 2 * across - 2] @ w over (down, across, each)
    return y[(group, out) -> deep]
}

block of_one(x, along r, along c) {
    w : param[down, across, deep] ~ normal(0.3) as "weight" [deep, down, across]
    return sum(x[r + down - 1, c + across - 1] * w, over (down, across))
}

model resnet(x[batch, colour, row, col], y[batch] : token(classes)) {
    strided : param[down, across, wide, deep] ~ normal(0.3) as "strided.weight" [deep, wide, down, across]
    short   : param[wide, deep]               ~ normal(0.3) as "short.weight" [deep, wide]
    w       : param[deep, classes]            ~ normal(0.3) as "head.weight" [classes, deep]
    b       : param[classes]                  = 0 as "head.bias"
    h = conv(x, along row, along col, over colour, over wide) as "stem"
    z = relu(norm(h, over wide) as "n1")
    z = relu(norm(conv(z, along row, along col, over wide, over next) as "a1", over next) as "n2")
    h = h + conv(z, along row, along col, over next, over wide) as "a2"
    z = relu(norm(h, over wide) as "n3")
    s = z[row = 2 * half_row, col = 2 * half_col] @ short over wide
    z = z[row = 2 * half_row + down - 1, col = 2 * half_col + across - 1] @ strided over (down, across, wide)
    z = relu(norm(z, over deep) as "n4")
    h = s + of_groups(z, along half_row, along half_col) as "groups"
    h = h + of_one(relu(h), along half_row, along half_col) as "ones"
    logits = mean(relu(h), over (half_row, half_col)) @ w over deep + b
    loss = cross_entropy(logits, y)
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
