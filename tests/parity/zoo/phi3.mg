# phi3.mg - Phi-3 (Abdin and others, 2024): a checkpoint has queries, keys and values behind each other in one tensor, and gate and up
# in another. Parameters are parts of them. The first elements of a head turn with their position; attention has a window.
# As Qwen's first models had it, the product of q, k and v has a bias, in parts too.
dim layers = 2, hidden = 16, kv_heads = 2, group = 2, head = 6, turn = 4, still = head - turn, ffn = 12
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block turned(x[head]) {
    return join(rope(x[head = 0 .. turn], along seq, over turn), x[head = turn .. head -> still], (turn, still) -> head)
}

block attend(x[hidden]) {
    wv : param[hidden, kv_heads, head]        ~ normal(0.3) as "qkv.weight" [(kv_heads head) at kv_heads * (group + 1) * head, hidden]
    wq : param[hidden, kv_heads, group, head] ~ normal(0.3) as "qkv.weight" [(kv_heads group head) at 0, hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.3) as "qkv.weight" [(kv_heads head) at kv_heads * group * head, hidden]
    bq : param[kv_heads, group, head]         = 0 as "qkv.bias" [(kv_heads group head) at 0]
    bk : param[kv_heads, head]                = 0 as "qkv.bias" [(kv_heads head) at kv_heads * group * head]
    bv : param[kv_heads, head]                = 0 as "qkv.bias" [(kv_heads head) at kv_heads * (group + 1) * head]
    wo : param[kv_heads, group, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (kv_heads group head)]
    q = turned(x @ wq over hidden + bq)
    k = turned(x @ wk over hidden + bk)
    v = x @ wv over hidden + bv
    return attention(q, k, v, along seq, over head, causal, window = 5) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.3) as "gate_up.weight" [hidden, ffn at 0]
    up   : param[hidden, ffn] ~ normal(0.3) as "gate_up.weight" [hidden, ffn at ffn]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model phi3(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1") as "attn"
        x = x + swiglu(norm(x) as "ln2") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.3) as "unembed.weight"
    loss = cross_entropy((norm(x) as "norm") @ unembed over hidden, next(tokens))
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
