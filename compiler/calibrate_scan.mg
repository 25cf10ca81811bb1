# calibrate_scan.mg - what `mgc calibrate` runs to measure how fast this machine multiplies a few rows by weights that it reads again at
# each step of a scan: a recurrence of units, no more.
dim units = 1280, prev = units, gate = 3, vocab = 256, seq = 32, batch = 4

model calibrate_scan(tokens[batch, seq] : token(vocab)) {
    embed   : param[vocab, units]      ~ normal(0.02)
    weights : param[gate, prev, units] ~ normal(0.02)
    unembed : param[vocab, units]      ~ normal(0.02)
    x = embed[tokens]
    h = expand(0, over (batch, units))
    scan seq {
        g = h[units -> prev] @ weights over prev
        z = sigmoid(g[gate = 0] + x)
        h = (1 - z) * tanh(g[gate = 1] + x) + z * h * sigmoid(g[gate = 2])
        out = h
    }
    loss = cross_entropy(out @ unembed over units, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8)
    lr        constant(1e-4)
}

layout {
    device cpu
}
