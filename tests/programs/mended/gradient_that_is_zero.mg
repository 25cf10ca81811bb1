# The loss sees a weight by its signs alone: each round hands on what was added up of its gradient so far as it is. That
# was stacked elsewhere and moved behind the loop as a whole, with the layer that the shorter stage does not have.
dim layers = 3
dim seq = 4, ffn = 2, batch = 4, vocab = 8
model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, ffn] ~ normal(0.5)
    x = embed[tokens]
    repeat layers {
        w : param[ffn] ~ normal(0.3)
        v : param[ffn] ~ normal(0.3)
        x = x + sign(w) * tanh(x * v)
    }
    head : param[ffn, vocab] ~ uniform(-0.5, 0.5)
    loss = cross_entropy(x @ head over ffn, next(tokens))
}
train {
    optimizer adamw
    lr cosine(peak = 1e-2, warmup = 3, steps = 10, floor = 1e-3)
    precision f64
}
layout {
    mesh pp = 2
    device cpu
    layers -> pp (schedule = gpipe)
    microbatch 4
}
