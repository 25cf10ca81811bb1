# grpo.mg - group relative policy optimization (Shao and others, 2024): advantages and what the tokens' probabilities were are inputs;
# a ratio that has gone too far gains no more, and a divergence from a reference is paid for.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 16
dim vocab = 32, seq = 8, batch = 4
const low = 0.8, high = 1.2, kl = 0.1

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

model grpo(ids[batch, seq] : token(vocab), act[batch, seq] : token(vocab), old[batch, seq], ref[batch, seq], advantage[batch], weight[batch, seq]) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[ids]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1") as "attn"
        x = x + mlp(norm(x) as "ln2") as "mlp"
    }
    z = (norm(x) as "norm") @ embed over hidden
    m = max(z, over vocab)
    log_p = z - m - log(sum(exp(z - m), over vocab))
    l = sum(select(index(vocab) == act, log_p, 0), over vocab)
    ratio = exp(l - old)
    gain = min(ratio * advantage, min(max(ratio, low), high) * advantage)
    paid = exp(ref - l) - (ref - l) - 1
    loss = sum(weight * (kl * paid - gain)) / sum(weight)
    metric divergence = sum(weight * paid) / sum(weight)
    metric clipped = sum(weight * select(ratio < low, 1, select(ratio > high, 1, 0))) / sum(weight)
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
