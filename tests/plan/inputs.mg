# inputs.mg - a model with inputs by name, for fuzz-layouts.
dim batch = 8, features = 8, hidden = 8, classes = 4
model classify(x[batch, features], y[batch] : token(classes)) {
    w1 : param[features, hidden] ~ normal(0.2)
    b1 : param[hidden]           = 0
    w2 : param[hidden, classes]  ~ normal(0.2)
    h = tanh(x @ w1 over features + b1)
    loss = cross_entropy(h @ w2 over hidden, y)
}
train {
    optimizer adamw(betas = (0.9, 0.99))
    lr        constant(peak = 1e-2, steps = 100)
}
layout {
    device     cpu
    microbatch 4
}
