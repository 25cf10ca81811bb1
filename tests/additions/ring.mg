# Attention round a ring: with cp = 2 its shifts are the new collective, by the new pass.
dim hidden = 16, heads = 2, head = 8, vocab = 256, seq = 16, batch = 4

model ring(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden]       ~ normal(0.1) as "embed"
    spot  : param[seq, hidden]         ~ normal(0.1)
    wq    : param[hidden, heads, head] ~ normal(0.1)
    wk    : param[hidden, heads, head] ~ normal(0.1)
    wv    : param[hidden, heads, head] ~ normal(0.1)
    wo    : param[heads, head, hidden] ~ normal(0.1)
    x = softsign(embed[tokens] + spot)
    y = attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head, causal)
    loss = cross_entropy((x + y @ wo over (heads, head)) @ embed over hidden, next(tokens))
}

train {
    optimizer adamax
    lr        constant(peak = 1e-2)
    precision f64
}

layout {
    device     cpu
    mesh       cp = 1
    seq -> cp (ring, zigzag)
    microbatch 2
}
