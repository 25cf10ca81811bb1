# A look-up left a scan with the dim of the scan before those of its indices, which the library does not give.
dim near = 2, vocab = 4, heads = 2, seq = 4, batch = 4

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[near, vocab] ~ uniform(0.5, 0.6)
    x = embed[tokens]
    w : param[heads] = 0.5
    scan near {
        v = (embed * w)[tokens]
        y = x + sum(v * v, over (heads, seq))
    }
    head : param[near, vocab] = 1
    loss = cross_entropy(y @ head over near, tokens)
}

train {
    optimizer sgd()
    lr        0.1
}
