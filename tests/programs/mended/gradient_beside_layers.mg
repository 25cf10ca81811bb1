# Layers and a loss that needs nothing of them read the same parameters: what each adds to a gradient is added on the way
# back, where the sum over microbatches is written.
dim batch = 3, seq = 4, col = 2, best = 2, choice = 3, hidden = 2, group = 2, layers = 4, vocab = 1

model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed : param[vocab, best, col] = 0.25
    x = embed[tokens]
    gain  : param[]          = 1
    bias  : param[]          = 0.5
    start : param[col, best] = 1
    v = layernorm(softmax(start, over best), gain, bias, over col, eps = 2)[col = 3 * col + seq]
    wide  : param[best, choice, col, group] = 0.5
    scale : param[seq]                      = 0.5
    mix   : param[hidden, choice]           ~ normal(0.3)
    x = x + (layernorm(weight * wide, scale, 0, over seq, eps = 2) @ (gain + mix)[hidden = group] over (choice, group))
    repeat layers {
        w : param[col, best] = 1
        v = v + 0.3 * rope(scale * w, along best, over seq)
    }
    head : param[vocab, col, best] = 1
    loss = cross_entropy(x @ head over (best, col), next(tokens), weight) + 0.5 * mean(v)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        1e-2
}

layout {
    mesh pp = 2
    layers -> pp (schedule = zb-h1)
}
