# batch_norm.mg - batch norm (Ioffe, Szegedy, 2015) as it is in training: means and variances are those of the batch, which is computed
# at once.
dim features = 8, hidden = 16, wide = hidden, classes = 4, batch = 8

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    c = x - mean(x, over batch)
    return c * rsqrt(mean(c * c, over batch) + 1e-5) * gain + bias
}

model net(x[batch, features], y[batch] : token(classes)) {
    w1 : param[features, hidden] ~ normal(0.3) as "fc1.weight" [hidden, features]
    w2 : param[hidden, wide]     ~ normal(0.3) as "fc2.weight" [wide, hidden]
    w3 : param[hidden, classes]  ~ normal(0.3) as "fc3.weight" [classes, hidden]
    b3 : param[classes]          = 0 as "fc3.bias"
    h = tanh(norm(x @ w1 over features) as "bn1")
    h = tanh(norm((h @ w2 over hidden)[wide -> hidden]) as "bn2")
    loss = cross_entropy(h @ w3 over hidden + b3, y)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 8
}
