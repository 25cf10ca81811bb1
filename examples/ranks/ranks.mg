# ranks.mg - a small GPT whose layout has two axes: dp splits the batch, tp the heads, the hidden units and the vocabulary. Gradients are
# added up in an order that no number of ranks of dp changes (reduce = tree).
dim layers = 2, hidden = 64, heads = 4, head = 16, ffn = 256
dim vocab = 256, seq = 64, batch = 16

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.05) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.05) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.05) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.02) as "o.weight" [hidden, (heads head)]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    return attention(q, k, x @ wv over hidden, along seq, over head, causal) @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.05) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02) as "down.weight" [hidden, ffn]
    return gelu_tanh(x @ up over hidden) @ down over ffn
}

model ranks(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.05) as "embed.weight"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        x = x + attend(norm(x) as "norm1") as "attention"
        x = x + mlp(norm(x) as "norm2") as "mlp"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), decay = 0.1 where rank >= 2)
    lr        cosine(peak = 3e-3, warmup = 5, steps = 40)
    clip      1.0
    precision f32(reduce = tree)
}

layout {
    device cpu
    mesh   dp = 1, tp = 1
    batch             -> dp
    heads, ffn, vocab -> tp
    microbatch 4
}
