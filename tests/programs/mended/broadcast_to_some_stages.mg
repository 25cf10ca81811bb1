# A gradient that the first and the last of four stages need: all of them take part in sending it, and have it.
dim layers = 3
dim batch = 2
dim ffn = batch, seq = 2
dim col = 4, vocab = 9, head = 1
dim heads = 4
const c3 = 0.5
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed36 : param[vocab] = 1
    x = embed36[tokens]
    w38 : param[head] = c3
    v39 = x + w38
    w40 : param[heads] = 1
    v41 = v39 * w40
    repeat layers {
        p43 : param[seq] = 0.5
        v41 = v41
    }
    head44 : param[vocab, heads] = 1
    loss = cross_entropy(v41 @ head44 over heads, next(tokens)) + mean(x)
}
train {
    optimizer muon(momentum = 0.9, betas = (0.9, 0.99))
    lr warmup(peak = 1e-2)
}
layout {
    mesh pp = 4
    layers -> pp
}