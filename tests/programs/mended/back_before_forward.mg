# Layers without weights have gradients that read nothing of the way forward. A kernel of both ways was made before the
# layers, so ranks waited for what comes back before they had sent anything on.
dim vocab = 6, classes = 4, layers = 2, other = 1, ffn = 2, seq = 2, batch = 8, group = 1
model m(x[batch, group, ffn]) {
    a : param[other, vocab] ~ normal(0.3)
    b : param[other, vocab] ~ normal(0.3)
    v = (max(x, over group) + a) @ b over (vocab, other)
    w : param[ffn] ~ normal(0.3)
    c : param[other] ~ normal(0.3)
    u : param[classes, seq] ~ normal(0.3)
    v = max(v, v) - select(index(ffn) > 1, attention(index(other) + w, w * c, w, along ffn, over other, scale = 0.5), sum(w + u, over (classes, seq)))
    repeat layers {
        g : param[] = 0.5
        v = v + 0.3 * v
    }
    loss = mean(v)
}
train {
    optimizer adamw
    lr 1e-2
}
layout {
    mesh pp = 2
    layers -> pp
}
