# nothing.mg - a loss that depends on no parameter: of its layouts nothing could differ.
dim batch = 8, features = 8, hidden = 8, classes = 4
model classify(x[batch, features]) {
    w1 : param[features, hidden] ~ normal(0.2)
    b1 : param[hidden]           = 0
    w2 : param[hidden, classes]  ~ normal(0.2)
    h = tanh(x @ w1 over features + b1)
    loss = mean(0 * h * h)
}
train {
    optimizer adamw(betas = (0.9, 0.99))
    lr        constant(peak = 1e-2, steps = 100)
}
layout {
    device     cpu
    microbatch 4
}
