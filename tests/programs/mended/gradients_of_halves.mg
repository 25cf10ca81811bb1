# The gradient of a weight that is rounded to halves was stacked as halves by the loop over layers, and added to the
# others behind it: there the stage of fewer layers read the slice of a layer that it does not have.
dim layers = 3, vocab = 8
dim batch = 4, seq = 4, col = 4
model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, col] ~ normal(0.3)
    x = embed[tokens]
    repeat layers {
        w : param[col, vocab] ~ uniform(0.5, 0.5)
        u : param[vocab] ~ normal(0.3)
        x = x + 0.3 * attention(w, index(col) + u, u * index(col), along col, over vocab, causal)[tokens]
    }
    y : param[col, vocab] ~ normal(0.3)
    loss = cross_entropy(x @ y over col, next(tokens))
}
train {
    optimizer sgd()
    lr constant(peak = 1e-2)
    precision f16
}
layout {
    mesh pp = 2
    layers -> pp
}
