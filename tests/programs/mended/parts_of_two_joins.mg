# Parts of a sequence that two joins have, as pieces were cut: one kernel made one copy for both, and a part lies at one place.
dim seq = 6
dim col = batch + 1, vocab = 6
dim steps_in = ceil(batch / 2), near = 2, batch = 3, heads = 22

model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed3 : param[vocab, col] ~ normal(0.3)
    x = embed3[tokens]
    table7 : param[col, vocab, seq] ~ normal((3)) as "table7.weight"
    x = x + rope_llama3(table7[tokens], along col, over seq, theta = 100, factor = 4, original = 8)
    head51 : param[vocab, col] ~ normal((8)) as "head51.bias"
    loss = cross_entropy(x @ head51 over col, next(tokens, by = 2), weight)
}

train {
    optimizer own52()
    lr        linear(peak = 1e2, steps = 10)
}

optimizer own52(rho = 0.5, decay = 0) {
    p = decayed(p, lr, decay = decay) - lr * (g + rho * g)
}

layout {
    mesh   cp = 3
    device h100 x 3
    vocab, batch -> cp
}
