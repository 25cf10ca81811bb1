# Attention's values are what its result is added to: the product adds to what it also multiplies,
# under another dim's name, and may not work in its place.
dim vocab = 5, batch = 4, seq = 3, group = 2, head = 4, layers = 2

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[group, vocab] ~ normal(0.3)
    w     : param[group, head]  ~ normal(0.3)
    x = w @ (embed[tokens] * w) over head
    repeat layers {
        x = dropout(min(x, mean(x, over group)), p = 0.25)
        q : param[head] ~ normal(0.3)
        k : param[head] ~ normal(0.3)
        x = x + attention(softmax(x * q, over group), x + k, x, along group, over head, causal)
    }
    out : param[vocab] ~ normal(0.3)
    loss = cross_entropy(mean(x, over group) + out, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}
