# gemma2.mg - Gemma 2 (Riviere and others, 2024): every second layer looks at the nearest positions alone, the others look at all;
# scores and logits end softly at a cap; a norm before and one after each half of a layer.
dim layers = 4, hidden = 8, kv_heads = 2, group = 2, head = 4, ffn = 16
dim vocab = 64, seq = 8, batch = 4
const score_cap = 2, logit_cap = 3, near = 3, width = hidden

block norm(x[hidden]) {
    gain : param[hidden] = 0 as "weight"
    return rmsnorm(x, 1 + gain, over hidden, eps = 1e-6)
}

block attend(x[hidden], window =) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.3) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.3) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(0.3) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(0.3) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal, window = window, cap = score_cap) @ wo over (kv_heads, group, head)
}

block geglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.3) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.3) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down_proj.weight" [hidden, ffn]
    return (gelu_tanh(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model gemma2(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens] * sqrt(width)
    repeat layers at l as "{}" {
        a = attend(norm(x) as "ln1", window = select(l % 2 == 0, near, seq)) as "attn"
        x = x + norm(a) as "ln2"
        x = x + norm(geglu(norm(x) as "ln3") as "mlp") as "ln4"
    }
    z = (norm(x) as "norm") @ embed over hidden
    loss = cross_entropy(logit_cap * tanh(z / logit_cap), next(tokens))
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
