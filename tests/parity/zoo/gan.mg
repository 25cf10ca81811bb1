# gan.mg - a generative adversarial network (Goodfellow and others, 2014) with the losses of Mao and others (2017): a generator makes
# samples of noise, a critic tells them from real ones, and each has an optimizer of its own. One step changes both.
dim noise = 4, pixel = 10, hidden = 12, deep = 2, layers = 2, batch = 8

block layer(x[hidden]) {
    w : param[hidden, wide] ~ normal(0.3) as "weight" [wide, hidden]
    b : param[wide]         = 0 as "bias"
    return x + tanh(x @ w over hidden + b)[wide -> hidden]
}

block generator(z[noise]) {
    first : param[noise, hidden] ~ normal(0.3) as "first.weight" [hidden, noise]
    last  : param[hidden, pixel] ~ normal(0.3) as "last.weight" [pixel, hidden]
    h = z @ first over noise
    repeat deep as "layers.{}" {
        h = layer(h)
    }
    return h @ last over hidden
}

block critic(x[pixel]) {
    first : param[pixel, hidden] ~ normal(0.3) as "first.weight" [hidden, pixel]
    last  : param[hidden]        ~ normal(0.3) as "last.bias"
    h = x @ first over pixel
    repeat layers as "layers.{}" {
        h = layer(h)
    }
    return sum(h * last, over hidden)
}

model gan(z[batch, noise], x[batch, pixel]) {
    judge : block critic as "critic"
    made = generator(z) as "generator"
    fake = judge(made)
    true = judge(x)
    critic_loss = 0.5 * (mean((true - 1) * (true - 1)) + mean(fake * fake))
    loss = 0.5 * mean((fake - 1) * (fake - 1))
}

dim wide = hidden

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

train critic_loss where "critic.*" {
    optimizer adam(betas = (0.5, 0.9), eps = 1e-4)
    lr        constant(peak = 0.02, warmup = 2)
    clip      0.5
}

layout {
    device     cpu
    microbatch 4
}
