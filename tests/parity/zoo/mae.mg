# mae.mg - a masked autoencoder (He and others, 2021): of the patches of an image some are kept, which are encoded; where they
# were they are put back, among a vector for all that are gone. Its classifier sees one place and the two patches of the best scores.
dim patch = 8, shown = 3, gone = patch - shown, pixel = 6, hidden = 16, two = 2, classes = 4, batch = 4

model mae(x[batch, patch, pixel], keep[batch, shown] : token(patch), back[batch, patch] : token(patch), place[batch] : token(patch), y[batch] : token(classes)) {
    w     : param[pixel, hidden]   ~ normal(0.3) as "patch.weight" [hidden, pixel]
    b     : param[hidden]          = 0 as "patch.bias"
    pos   : param[patch, hidden]   ~ normal(0.3) as "pos.weight"
    wq    : param[hidden, inner]   ~ normal(0.3) as "q.weight" [inner, hidden]
    wk    : param[hidden, inner]   ~ normal(0.3) as "k.weight" [inner, hidden]
    mask  : param[hidden]          = 0 as "mask.bias"
    out   : param[hidden, pixel]   ~ normal(0.3) as "out.weight" [pixel, hidden]
    score : param[hidden]          = 0 as "score.bias"
    head  : param[hidden, classes] ~ normal(0.3) as "head.weight" [classes, hidden]
    h = (x @ w over pixel + b + pos)[keep]
    h = h + attention(h @ wq over hidden, h @ wk over hidden, h, along shown, over inner)
    z = join(h, expand(mask, over gone), (shown, gone) -> patch)[back] + pos
    likes = z @ score over hidden
    best = top(likes, patch -> two)
    chosen = sum(z[best] * sigmoid(likes[best]), over two)
    wrong = z @ out over hidden - x
    loss = mean(wrong * wrong) + cross_entropy((z[place] + chosen) @ head over hidden, y)
}

dim inner = 16

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 2
}
