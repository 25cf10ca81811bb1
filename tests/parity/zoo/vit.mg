# vit.mg - a vision transformer (Dosovitskiy and others, 2021): patches become positions, before which a learnt one stands that the
# classes are read from; attention sees everything.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 16
dim patch = 4, pixel = 12, seq = patch + 1, classes = 4, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-6)
}

block attend(x[hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    return attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head) @ wo over (heads, head)
}

block mlp(x[hidden]) {
    w1 : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    b1 : param[ffn]         = 0 as "up.bias"
    w2 : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    b2 : param[hidden]      = 0 as "down.bias"
    return gelu(x @ w1 over hidden + b1) @ w2 over ffn + b2
}

model vit(x[batch, patch, pixel], y[batch] : token(classes)) {
    embed : param[pixel, hidden]   ~ normal(0.3) as "patch.weight" [hidden, pixel]
    shift : param[hidden]          = 0 as "patch.bias"
    cls   : param[hidden]          ~ normal(0.3) as "cls.bias"
    spot  : param[seq, hidden]     ~ normal(0.3) as "pos.weight"
    last  : param[hidden, classes] ~ normal(0.3) as "head.weight" [classes, hidden]
    bias  : param[classes]         = 0 as "head.bias"
    h = (x @ embed over pixel + shift)[patch = seq - 1] + select(index(seq) == 0, cls, 0) + spot
    repeat layers as "{}" {
        h = h + attend(norm(h) as "ln1") as "attn"
        h = h + mlp(norm(h) as "ln2") as "mlp"
    }
    loss = cross_entropy((norm(h[seq = 0]) as "norm") @ last over hidden + bias, y)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
