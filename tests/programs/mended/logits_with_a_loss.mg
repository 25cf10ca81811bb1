# Logits with a loss in them, which is f64: those of the sample are of the program's type.
dim batch = 4, vocab = 2, seq = batch, heads = 3, group = 2

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, heads] ~ normal(0.3)
    x = embed[tokens]
    best = top(embed, heads -> group)
    w : param[vocab, group, heads] ~ normal(0.3)
    v : param[vocab, seq] ~ normal(0.3)
    loss = cross_entropy(sum(x, over heads) + v + cross_entropy(w, best), next(tokens))
}
train {
    optimizer sgd
    lr        1e-2
}
