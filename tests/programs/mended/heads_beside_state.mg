# Exchanged heads leave a rank one head; the copy of a projection in halves lies on the ranks that have its state, and the
# projection was to be split once more along its heads, as the copy is.
dim layers = 2, seq = 16, hidden = 64, kv_heads = 2, head = 32, vocab = 32, batch = 4

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, head] ~ normal(0.1) as "q.weight" [(kv_heads head), hidden]
    wk : param[hidden, kv_heads, head] ~ normal(0.1) as "k.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head] ~ normal(0.1) as "v.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, head, hidden] ~ normal(0.1) as "o.weight" [hidden, (kv_heads head)]
    q = x @ wq over hidden
    k = x @ wk over hidden
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, head)
}

model attends(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        x = x + attend(x) as "attend"
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw()
    lr        1e-2
    precision bf16
}

layout {
    device h100 x 4
    mesh cp = 2, dp = 2
    batch -> dp
    seq   -> cp (heads)
    state -> cp, dp
    microbatch 1
}
