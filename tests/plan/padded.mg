# padded.mg - a model whose heads no even number of ranks divides, for programs of several ranks: they are stored as kv_all, as many
# as there are unless -D says more.
dim layers = 3, hidden = 16, kv_heads = 3, group = 2, head = 4, ffn = 8, vocab = 16, seq = 8, batch = 16
const kv_all = 3

model padded(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3)
    x = embed[tokens]
    repeat layers {
        gain : param[hidden]                        = 1
        wq   : param[hidden, kv_heads, group, head] ~ normal(0.3)
        wk   : param[hidden, kv_heads, head]        ~ normal(0.3)
        wv   : param[hidden, kv_heads, head]        ~ normal(0.3)
        wo   : param[kv_heads, group, head, hidden] ~ normal(0.3)
        up   : param[hidden, ffn]                   ~ normal(0.3)
        down : param[ffn, hidden]                   ~ normal(0.3)
        y = rmsnorm(x, gain, over hidden, eps = 1e-5)
        y = attention(y @ wq over hidden, y @ wk over hidden, y @ wv over hidden, along seq, over head, causal)
        x = x + y @ wo over (kv_heads, group, head)
        x = x + silu(x @ up over hidden) @ down over ffn
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
}

layout {
    device     cpu
    mesh       dp = 1, cp = 1, tp = 1
    pad        kv_heads to kv_all
    microbatch 4
}
