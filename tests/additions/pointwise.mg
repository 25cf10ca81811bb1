# The operation and the optimizer, in a model that a few lines of Python train, too.
dim hidden = 8, vocab = 256, seq = 8, batch = 4

model pointwise(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5) as "embed.weight"
    head  : param[hidden, vocab] ~ normal(0.5) as "head.weight"
    x = softsign(embed[tokens])
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamax(betas = (0.8, 0.9), eps = 1e-6, decay = 0.1)
    lr        constant(peak = 1e-2)
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
