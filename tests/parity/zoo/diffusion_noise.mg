# diffusion_noise.mg - a denoiser (Ho, Jain, Abbeel, 2020, with the cosine schedule of Nichol and Dhariwal) that draws times and noise, and
# more noise in each layer, which is one for all rows.
dim layers = 2, point = 8, hidden = 16, rate = 8, batch = 8

block dense(x, along from, along to_) {
    w : param[from, to_] ~ normal(0.3) as "weight" [to_, from]
    b : param[to_]       = 0 as "bias"
    return x @ w over from + b
}

block norm(x[hidden]) {
    return layernorm(x, 1, 0, over hidden, eps = 1e-6)
}

block layer(x[hidden], emb[rate]) {
    w : param[hidden, hidden_out] ~ normal(0.3) as "dense.weight" [hidden_out, hidden]
    s = dense(emb, along rate, along hidden) as "scale"
    t = dense(emb, along rate, along hidden) as "shift"
    return silu((norm(x) * (1 + s) + t) @ w over hidden)[hidden_out -> hidden]
}

dim hidden_out = hidden

model diffusion(x[batch, point]) {
    time = uniform(over batch)
    noise = normal(over (point, batch))
    a = cos(1.5707963267948966 * time)
    noisy = a * x + sqrt(1 - a * a) * noise
    speed = exp(index(rate) * (-log(100) / rate))
    emb = silu(dense(sin(100 * time * speed) + cos(50 * time * speed), along rate, along rate_out) as "time")[rate_out -> rate]
    h = dense(noisy, along point, along hidden) as "in"
    repeat layers as "{}" {
        h = h + layer(h, emb) * (1 + 0.1 * normal(over hidden)) + 0.1 * uniform(over (hidden, batch))
    }
    d = (dense(norm(h), along hidden, along point) as "out") - noise
    loss = mean(mean(d * d, over point) * (1 + time))
}

dim rate_out = rate

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
