# llama7b.mg - LLaMA 7B (Touvron et al. 2023), external names and shapes of the published weights.
# One CPU rank can hold its plan but not train it in a lifetime; the layout node8 is how one node
# trains it: 2-way data parallel, 4-way tensor and sequence parallel, optimizer state split (zero 1).
# Nothing above the layouts changes with them. On GPUs it trains in bf16, with parameters in f32; on a
# processor in f32.
dim layers = 32, hidden = 4096, kv_heads = 32, group = 1, head = 128, ffn = 11008
dim vocab = 32000, seq = 4096, batch = 512

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
    lr        cosine(peak = 3e-4, warmup = 2000, steps = 100000, floor = 3e-5)
    clip      1.0
}

layout {                                     # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch                -> dp
    kv_heads, ffn, vocab -> tp
    seq                  -> cp (zigzag), tp  # tp wherever it is still free: sequence parallelism
    layers               -> pp (schedule = 1f1b)
    microbatch 1                             # sequences a rank computes at once; the rest accumulates
    recompute  auto
}

layout node8 : default {
    device h100 x 8
    mesh   dp = 2, tp = 4
    state -> dp  # zero 1; state, grads -> dp is zero 2; state, grads, params -> dp is zero 3
    assert peak < 76 GB, exposed_comm < 20%
}

layout node8_zero3 : node8 {  # every rank has an eighth of all, and gathers what it needs
    mesh dp = 8, tp = 1
    grads, params -> dp
}

layout node8_tp8 : node8 {  # in bf16 an eighth of a product takes no longer than the sums behind it
    mesh   dp = 1, tp = 8
    assert exposed_comm < 40%
}
