# All logits share what the parameters make of them: their gradients are zero, and what is computed
# as those is rounding alone, on ranks another than on one.
dim batch = 2, seq = 4, vocab = 6, inner = 2
dim group = 2, heads = 2 * batch
const c2 = 1

model m(tokens[batch, seq] : token(vocab)) {
    embed7 : param[heads, group, vocab] = 0.5
    x = embed7[tokens]
    repeat inner {
        w10    : param[]      ~ normal(0.3)
        w12    : param[group] = c2
        gain13 : param[group] = 0.5
        x = x + (layernorm(x, gain13, 0, over group, eps = 1e-2) + select(mean(x, over (group, seq, heads)) < 2 * c2, max(x, over (seq, group)), max(x, over (group, seq))))
    }
    loss = cross_entropy(max(x, over (group, heads, seq)) + index(vocab), last((tokens), along seq))
}

train {
    optimizer adafactor()
    lr        1e-2
}

layout {
    mesh tp = 3
    vocab -> tp
}
