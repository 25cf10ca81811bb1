# Two kernels that read at other indices, by other factors, were taken for one: gradients were those of the forward program's kernel.
dim seq = 2, vocab = 12, batch = 2

model m(tokens[batch, seq] : token(vocab)) {
    w : param[seq, vocab] ~ normal(0.3)
    loss = cross_entropy((2 * w)[seq = 3 * seq - vocab], tokens)
}

train {
    optimizer sgd()
    lr        0.1
}

layout {
    mesh cp = 2
    seq -> cp
}
