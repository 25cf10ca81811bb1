# llama.mg - the Llamas of TorchTitan's and nanotron's tables, any size by -D: as models/llama3_8b.mg, with names for
# what a layout may keep.
dim layers = 32, hidden = 4096, kv_heads = 8, group = 4, head = 128, ffn = 14336
dim vocab = 128256, seq = 8192, batch = 1024
const eps = 1e-5, theta = 500000, std = 0.02

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight"
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight"
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight"
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight"
    xq = x @ wq over hidden
    xk = x @ wk over hidden
    xv = x @ wv over hidden
    q = rope(xq, along seq, over head, theta = theta)
    k = rope(xk, along seq, over head, theta = theta)
    mixed = attention(q, k, xv, along seq, over head, causal)
    xo = mixed @ wo over (kv_heads, group, head)
    return xo
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight"
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight"
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight"
    xg = x @ gate over hidden
    xu = x @ up over hidden
    xd = (silu(xg) * xu) @ down over ffn
    return xd
}

model llama(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 0.0003, warmup = 2000, steps = 250000, floor = 3e-5)
    clip      1.0
    precision bf16
}

layout {
    device h100
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch                -> dp
    kv_heads, ffn, vocab -> tp
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}
