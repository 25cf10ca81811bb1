# packing.mg - documents that the data pack into windows, without a separator: attention sees what is near and before it in its own
# document, positions begin anew, no target crosses, neither the next token nor the one behind it, and what fills a window counts
# nothing.
dim layers = 2, hidden = 16, kv_heads = 2, group = 2, head = 4, vhead = 6, ffn = 16
dim vocab = 8, seq = 24, batch = 4
const near = 9, score_cap = 2, second = 0.3

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block attend(x[hidden], start) {
    wq : param[hidden, kv_heads, group, head]  ~ normal(0.3) as "q.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]         ~ normal(0.3) as "k.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, vhead]        ~ normal(0.3) as "v.weight" [(kv_heads vhead), hidden]
    wo : param[kv_heads, group, vhead, hidden] ~ normal(0.3) as "o.weight" [hidden, (kv_heads group vhead)]
    q = rope(x @ wq over hidden, start, along seq, over head)
    k = rope(x @ wk over hidden, start, along seq, over head)
    v = x @ wv over hidden
    y = attention(q, k, v, start, along seq, over head, causal, window = near, cap = score_cap)
    return y @ wo over (kv_heads, group, vhead)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return gelu_tanh(x @ up over hidden) @ down over ffn
}

model packing(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    start = document_start(tokens, along seq)
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1", start) as "attn"
        x = x + mlp(norm(x) as "ln2") as "mlp"
    }
    y = norm(x) as "norm"
    ahead : param[vocab, hidden] ~ normal(0.3) as "ahead.weight"
    loss = cross_entropy(y @ embed over hidden, next(tokens), weight) + second * cross_entropy(y @ ahead over hidden, next(tokens, by = 2), next(weight))
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
