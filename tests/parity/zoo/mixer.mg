# mixer.mg - MLP-Mixer (Tolstikhin and others, 2021): one MLP along patches, one along channels, in turn.
dim layers = 2, hidden = 16, patch = 4, pixel = 12, tokens_mlp = 8, ffn = 16, classes = 4, batch = 8

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-6)
}

block mlp(x, along d, along wide) {
    w1 : param[d, wide] ~ normal(0.3) as "up.weight" [wide, d]
    b1 : param[wide]    = 0 as "up.bias"
    w2 : param[wide, d] ~ normal(0.3) as "down.weight" [d, wide]
    return gelu(x @ w1 over d + b1) @ w2 over wide
}

model mixer(x[batch, patch, pixel], y[batch] : token(classes)) {
    embed : param[pixel, hidden]   ~ normal(0.3) as "patch.weight" [hidden, pixel]
    shift : param[hidden]          = 0 as "patch.bias"
    head  : param[hidden, classes] ~ normal(0.3) as "head.weight" [classes, hidden]
    bias  : param[classes]         = 0 as "head.bias"
    h = x @ embed over pixel + shift
    repeat layers as "{}" {
        h = h + mlp(norm(h) as "ln1", along patch, along tokens_mlp) as "tokens"
        h = h + mlp(norm(h) as "ln2", along hidden, along ffn) as "channels"
    }
    logits = mean(norm(h) as "norm", over patch) @ head over hidden + bias
    loss = cross_entropy(logits, y)
    metric accuracy = mean(in_top(logits, y))
    metric of_three = mean(in_top(logits, y, best = 3))
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
