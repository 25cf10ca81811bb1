# adapter_small.mg - llama_small.mg with PEFT's adapters beside its matrices; adapters.py has the twin.
#
#   mgc adapter_small.mg --adapter dora -o train
dim layers = 2, hidden = 32, kv_heads = 2, group = 2, head = 8, ffn = 48
dim vocab = 256, seq = 24, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.02) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(0.02) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden, along seq, over head, theta = 10000)
    k = rope(x @ wk over hidden, along seq, over head, theta = 10000)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.02) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.02) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model llama(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.02) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        1e-2
    precision f32
    adapter   lora lora(rank = 4, alpha = 6) on "*.q_proj.weight", "*.v_proj.weight", "*.down_proj.weight"
    adapter   stable lora(rank = 4, alpha = 6, rank_stabilized = 1, ratio = 4) on "*_proj.weight"
    adapter   stable lora(rank = 2, alpha = 3, rank_stabilized = 1, ratio = 4) on "*.o_proj.weight"
    adapter   dora dora(rank = 4, alpha = 6) on "*.q_proj.weight", "*.k_proj.weight", "*.up_proj.weight", "lm_head.weight"
    adapter   table lora(rank = 4, alpha = 6) on "model.embed_tokens.weight", "*.q_proj.weight"
    adapter   base lora(rank = 4, alpha = 6, base = nf4) on "*_proj.weight"
    adapter   saved lora(rank = 4, alpha = 6) on "*.q_proj.weight", "*.v_proj.weight"
    adapter   saved whole() on "lm_head.weight", "model.norm.weight"
}
layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 4
    recompute  auto
}
