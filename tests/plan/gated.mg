# gated.mg - a row of several loops whose gate costs much and is needed before its sum and after, and a convolution of each
# channel by itself, whose gradient reads a product at other positions.
dim hidden = 4, heads = 2, head = 64, tap = 2, all = 2 * heads * head, half = heads * head
dim vocab = 7, seq = 20, batch = 4

model gated(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden]       ~ normal(0.5)
    win   : param[hidden, all]         ~ normal(0.5)
    taps  : param[half, tap]           ~ normal(0.5)
    gain  : param[heads, head]         = 1
    wo    : param[heads, head, hidden] ~ normal(0.1)
    x = embed[tokens]
    p = x @ win over hidden
    u = p[all = 0 .. half -> half]
    c = silu(tanh(u[seq - 1] * taps[tap = 0] + u * taps[tap = 1]))
    g = c[half -> (heads, head)] * silu(p[all = half .. 2 * half -> half][half -> (heads, head)])
    y = x + rmsnorm(g, gain, over (heads, head), eps = 1e-5) @ wo over (heads, head)
    s = softmax(y, over hidden)
    loss = cross_entropy(s @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}
