# smoothing.mg - label smoothing (Szegedy and others, 2016) and the z-loss (PaLM, 2022): a part of the target is spread over all tokens,
# and the logarithm of the sum of exponentials is drawn to zero.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 16
dim vocab = 32, seq = 8, batch = 4
const spread = 0.1, drawn = 0.01

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block attend(x[hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    return attention(q, k, x @ wv over hidden, along seq, over head, causal) @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return silu(x @ up over hidden) @ down over ffn
}

model smoothing(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1") as "attn"
        x = x + mlp(norm(x) as "ln2") as "mlp"
    }
    z = (norm(x) as "norm") @ embed over hidden
    m = max(z, over vocab)
    lse = log(sum(exp(z - m), over vocab)) + m
    right = sum(select(index(vocab) == next(tokens), z, 0), over vocab)
    loss = mean(lse - (1 - spread) * right - spread * mean(z, over vocab) + drawn * lse * lse)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
