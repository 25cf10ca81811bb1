# byol.mg - bootstrap your own latent (Grill and others, 2020): the predictor of an online network finds what a target network makes of
# another view. The target's parameters follow the online ones, ever more slowly by a cosine. Averages of all that is trained are kept too.
dim layers = 2, pixel = 10, hidden = 12, shared = 6, batch = 8
const steps = 8

block residual(x[hidden]) {
    w : param[hidden, wide] ~ normal(0.3) as "weight" [wide, hidden]
    b : param[wide]         = 0 as "bias"
    return x + tanh(x @ w over hidden + b)[wide -> hidden]
}

block encoder(x[pixel]) {
    first : param[pixel, hidden]  ~ normal(0.3) as "first.weight" [hidden, pixel]
    last  : param[hidden, shared] ~ normal(0.3) as "last.weight" [shared, hidden]
    h = x @ first over pixel
    repeat layers as "layers.{}" {
        h = residual(h)
    }
    return h @ last over hidden
}

block predictor(x[shared]) {
    w : param[shared, made] ~ normal(0.3) as "weight" [made, shared]
    return (tanh(x) @ w over shared)[made -> shared]
}

block unit(x[shared]) {
    return x * rsqrt(sum(x * x, over shared) + 1e-6)
}

block apart(x[shared], y[shared]) {
    d = unit(x) - unit(y)
    return mean(sum(d * d, over shared))
}

model byol(left[batch, pixel], right[batch, pixel]) {
    online : block encoder as "online"
    target : block encoder as "target" follows online by 1 - 0.3 * (cos(3.141592653589793 * step() / steps) + 1) / 2
    guess  : block predictor as "predictor"
    loss = apart(guess(online(left)), target(right)) + apart(guess(online(right)), target(left))
}

dim wide = hidden, made = shared

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    average   min(0.9, (1 + step()) / (10 + step()))
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
