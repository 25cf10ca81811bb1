# siamese.mg - a siamese network (Bromley and others, 1993) with the contrastive loss of Hadsell and others (2006): two images go through
# one encoder, pairs that belong together come near each other, and others are pushed apart up to a margin.
dim layers = 2, pixel = 12, hidden = 16, ffn = 24, shared = 8, batch = 8
const margin = 1.5

block residual(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    bias : param[ffn]         = 0 as "up.bias"
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return x + tanh(x @ up over hidden + bias) @ down over ffn
}

block encoder(x[pixel]) {
    wide   : param[pixel, hidden]  ~ normal(0.3) as "wide.weight" [hidden, pixel]
    narrow : param[hidden, shared] ~ normal(0.3) as "narrow.weight" [shared, hidden]
    h = x @ wide over pixel
    repeat layers as "layers.{}" {
        mlp : block residual as "mlp"
        h = mlp(0.5 * mlp(h))
    }
    return h @ narrow over hidden
}

model siamese(left[batch, pixel], right[batch, pixel], same[batch] : token(answer)) {
    tower : block encoder as "tower"
    a = tower(left)
    b = tower(right)
    far = sqrt(mean((a - b) * (a - b), over shared) + 1e-6)
    gap = max(margin - far, 0)
    loss = mean(select(same == 1, far * far, gap * gap))
}

dim answer = 2

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
