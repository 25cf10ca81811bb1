# qwen.mg - the larger Qwens of LLM.Q's tables, as models/qwen2.5_7b.mg, with names for what a layout may keep, and sums of
# gradients in bf16, as LLM.Q has them.
dim layers = 28, hidden = 3584, kv_heads = 4, group = 7, head = 128, ffn = 18944
dim vocab = 152064, seq = 1024, batch = 512
const eps = 1e-6, theta = 1000000, std = 0.02

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    n = rmsnorm(x, gain, over hidden, eps = eps)
    return n
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight"
    bq : param[kv_heads, group, head]         = 0 as "q_proj.bias"
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight"
    bk : param[kv_heads, head]                = 0 as "k_proj.bias"
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight"
    bv : param[kv_heads, head]                = 0 as "v_proj.bias"
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight"
    q = rope(x @ wq over hidden + bq, along seq, over head, theta = theta)
    k = rope(x @ wk over hidden + bk, along seq, over head, theta = theta)
    v = x @ wv over hidden + bv
    mixed = attention(q, k, v, along seq, over head, causal)
    return mixed @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight"
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight"
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight"
    g = x @ gate over hidden
    u = x @ up over hidden
    h = silu(g) * u
    return h @ down over ffn
}

model qwen2_5(tokens[batch, seq] : token(vocab)) {
    embed   : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    lm_head : param[hidden, vocab] ~ normal(std) as "lm_head.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    loss = cross_entropy((norm(x) as "model.norm") @ lm_head over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, state = bf16, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 0.0003, warmup = 2000, steps = 100000, floor = 3e-5)
    clip      1.0
    precision bf16(master = bf16, reduce = bf16_nearest)
}

layout {
    device     rtx4090
    microbatch 16
    recompute  auto
    offload    auto
}
