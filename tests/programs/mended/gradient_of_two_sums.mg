# Two products are added to a weight's gradient (the weight is queries and keys): the first reads what was added up so
# far, the second gives the result. It was stacked elsewhere and moved behind the loop as a whole, with the layer that
# the shorter stage does not have.
dim layers = 3
dim seq = 6, ffn = 2, batch = 4, row = 13, vocab = 10
model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, ffn] ~ normal(0.5)
    x = embed[tokens]
    repeat layers {
        w : param[seq, row] ~ normal(0.3)
        v : param[seq] ~ normal(0.3)
        x = x + attention(w, w, v, along seq, over row)
    }
    head : param[ffn, vocab] ~ uniform(-0.5, 0.5)
    loss = cross_entropy(x @ head over ffn, next(tokens))
}
train {
    optimizer sgd
    lr cosine(peak = 1e-2, warmup = 3, steps = 10, floor = 1e-3)
    precision f64
}
layout {
    mesh pp = 2
    device cpu
    layers -> pp (schedule = gpipe)
    microbatch 4
}
