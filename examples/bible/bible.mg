# bible.mg - a Llama of half a million parameters on bytes.
dim layers = 3, hidden = 128, kv_heads = 4, group = 2, head = 16, ffn = 352
dim vocab = 256, seq = 128, batch = 32

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.02) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(0.02) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.02) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.02) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model bible(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.02) as "lm_head.weight"
    logits = (norm(x) as "model.norm") @ unembed over hidden
    loss = cross_entropy(logits, next(tokens))
    metric bits = loss / log(2)
    metric accuracy = mean(in_top(logits, next(tokens)))
}

train {
    optimizer adamw(betas = (0.9, 0.95), decay = 0.1 where rank >= 2)
    lr        cosine(peak = 4e-3, warmup = 30, steps = 300, floor = 3e-4)
    clip      1.0
}
