# calibrate.mg - what `mgc calibrate` runs to measure this machine: the products, attention, norms
# and the head of a language model, at sizes that -D makes large or small.
dim layers = 2, hidden = 512, kv_heads = 4, group = 2, head = 64, ffn = 1376
dim vocab = 4096, seq = 256, batch = 8

block norm(x[hidden]) {
    gain : param[hidden] = 1
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02)
    wk : param[hidden, kv_heads, head] ~ normal(0.02)
    wv : param[hidden, kv_heads, head] ~ normal(0.02)
    wo : param[kv_heads, group, head, hidden] ~ normal(0.02)
    q = rope(x @ wq over hidden, along seq, over head, theta = 10000)
    k = rope(x @ wk over hidden, along seq, over head, theta = 10000)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.02)
    up   : param[hidden, ffn] ~ normal(0.02)
    down : param[ffn, hidden] ~ normal(0.02)
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model calibrate(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    x = embed[tokens]
    repeat layers {
        x = x + attend(norm(x) as "before") as "attention"
        x = x + swiglu(norm(x) as "between") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.02)
    loss = cross_entropy((norm(x) as "last") @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        constant(1e-4)
}

layout {
    device cpu
}
