# Layers are read by two repeats, and the sum of both gradients is rounded, of which each stage has its own layers.
dim layers = 3, hidden = 4, wide = 6, batch = 4

block network(x[hidden]) {
    repeat layers as "layers.{}" {
        w : param[hidden, wide] ~ normal(0.3) as "weight"
        v : param[wide, hidden] ~ normal(0.3) as "out"
        x = x + tanh(x @ w over hidden) @ v over wide
    }
    return x
}

model m(x[batch, hidden], y[batch, hidden]) {
    tower : block network as "tower"
    a = tower(x)
    b = tower(y)
    c = tower(x - y)
    loss = mean((a - b) * c) + mean(c * c)
}

train {
    optimizer adamw
    lr        1e-2
    precision bf16(reduce = bf16)
}

layout {
    mesh pp = 2
    layers -> pp
    microbatch 2
}
