# A weight is read as it is and as halves: two gradients are stacked, and their sum was read with the layer that the
# shorter stage does not have.
dim layers = 4
dim batch = 4, ffn = 4, heads = 2, classes = 6
model m(x[batch, ffn, heads, classes], y[batch, heads] : token(classes)) {
    v = sum(x, over (ffn, classes, heads))
    repeat layers {
        w : param[ffn] ~ normal(0.3)
        v = v + 0.3 * (w @ (v * w) over ffn)
    }
    u : param[heads, classes] ~ normal(0.3)
    loss = cross_entropy(v + u, y)
}
train {
    optimizer adamw
    lr 1e-2
    precision bf16
}
layout {
    mesh pp = 2
    layers -> pp (schedule = 1f1b)
    microbatch 1
}
