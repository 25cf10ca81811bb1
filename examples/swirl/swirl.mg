# swirl.mg - diffusion (Ho, Jain, Abbeel, 2020) of points in the plane: the model sees a point with noise in it and says the noise.
dim point = 2, hidden = 48, wide = hidden, rate = 8, pair = 2, layers = 3, batch = 256
const right = 1.5707963267948966

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(1 / sqrt(from)) as "weight" [(into), (from)]
    b : param[into]       = 0 as "bias" [(into)]
    return x @ w over from + b
}

model swirl(x[batch, point]) {
    time = uniform(over batch)
    noise = normal(over (batch, point))
    noisy = cos(right * time) * x + sin(right * time) * noise
    angle = time * exp(index(rate) * 0.5)
    wave = select(index(pair) == 0, sin(angle), cos(angle))
    h = dense(noisy, over point, over hidden) as "in" + dense(wave, over (pair, rate), over hidden) as "time"
    repeat layers as "layers.{}" {
        h = h + dense(silu(h), over hidden, over wide)[wide -> hidden]
    }
    missed = dense(silu(h), over hidden, over point) as "out" - noise
    loss = mean(missed * missed)
}

train {
    optimizer adam()
    lr        cosine(peak = 4e-3, warmup = 50, steps = 3000)
    average   min(0.999, (1 + step()) / (10 + step()))
}
