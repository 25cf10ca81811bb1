# attention.mg - one attention and no more than it needs, for scripts/gpu-bounds --describe.
dim heads = 16, head = 128, hidden = 64, qkv = 3
dim vocab = 64, seq = 1024, batch = 16

model attention(tokens[batch, seq] : token(vocab)) {
    wte : param[vocab, hidden]           ~ normal(0.02)
    w   : param[hidden, qkv, heads, head] ~ normal(0.02)
    wo  : param[heads, head, hidden]     ~ normal(0.02)
    y = wte[tokens] @ w over hidden
    q = pick(y, along qkv, at = 0)
    k = pick(y, along qkv, at = 1)
    v = pick(y, along qkv, at = 2)
    x = attention(q, k, v, along seq, over head, causal) @ wo over (heads, head)
    loss = cross_entropy(x @ wte over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        constant(peak = 6e-4)
    clip      1.0
}

layout {
    device cpu
    microbatch 1
    recompute none
}
