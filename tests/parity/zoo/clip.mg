# clip.mg - CLIP (Radford and others, 2021): an image and a text each become a unit vector, and of all pairs in the batch the right ones
# are to be found, both ways. The whole batch is computed at once: its rows are each other's classes.
dim pixel = 16, hidden = 16, shared = 8, vocab = 32, word = 4, batch = 8, others = batch

block unit(x[shared]) {
    return x * rsqrt(sum(x * x, over shared))
}

model clip(image[batch, pixel], text[batch, word] : token(vocab)) {
    w1    : param[pixel, hidden]  ~ normal(0.3) as "image.up.weight" [hidden, pixel]
    b1    : param[hidden]         = 0 as "image.up.bias"
    w2    : param[hidden, shared] ~ normal(0.3) as "image.down.weight" [shared, hidden]
    table : param[vocab, hidden]  ~ normal(0.3) as "text.embed.weight"
    w3    : param[hidden, shared] ~ normal(0.3) as "text.down.weight" [shared, hidden]
    scale : param[single]         = 0.5 as "scale.bias"
    a = unit(gelu(image @ w1 over pixel + b1) @ w2 over hidden)
    b = unit(mean(table[text], over word) @ w3 over hidden)
    s = exp(pick(scale, along single, at = 0)) * (a @ b[batch -> others] over shared)
    right = sum(select(index(batch) == index(others), s, 0), over others)
    across = log(sum(exp(s), over others)) - right
    down = log(sum(exp(s), over batch))[others -> batch] - right
    loss = 0.5 * mean(across + down)
}

dim single = 1

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 8
}
