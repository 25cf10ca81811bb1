# addition.mg - a Transformer that adds: a document is '123+456=975;', the sum from its last digit on.
dim layers = 2, hidden = 96, heads = 6, head = 16, ffn = 256
dim vocab = 256, seq = 12, batch = 256

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden], start) {
    wq : param[hidden, heads, head] ~ normal(0.05) as "q_proj.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.05) as "k_proj.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.05) as "v_proj.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.02) as "o_proj.weight" [hidden, (heads head)]
    v = x @ wv over hidden
    return attention(x @ wq over hidden, x @ wk over hidden, v, start, along seq, over head, causal) @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.05) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02) as "down.weight" [hidden, ffn]
    return gelu_tanh(x @ up over hidden) @ down over ffn
}

model addition(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed : param[vocab, hidden] ~ normal(0.05) as "embed.weight"
    place : param[seq, hidden]   ~ normal(0.05) as "place.weight"
    start = document_start(tokens, along seq)
    x = embed[tokens] + place
    repeat layers as "layers.{}" {
        x = x + attend(norm(x) as "norm1", start) as "attention"
        x = x + mlp(norm(x) as "norm2") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.05) as "head.weight"
    logits = (norm(x) as "norm") @ unembed over hidden
    loss = cross_entropy(logits, next(tokens), weight)
    right = select(weight > 0, in_top(logits, next(tokens)), 1)
    metric digits = sum(weight * right) / sum(weight)
    metric sums = mean(min(right, over seq))
}

train {
    optimizer adamw(betas = (0.9, 0.98), decay = 0.1 where rank >= 2)
    lr        cosine(peak = 3e-3, warmup = 50, steps = 600)
    clip      1.0
}
