# qwen3_0_6b.mg - Qwen3 0.6B (2025): no biases; queries and keys are normed over each head before they turn,
# and the heads together are wider than the model.
# Written by mgc import-hf from the published config.json; --init takes the published weights.
dim layers = 28, hidden = 1024, kv_heads = 8, group = 2, head = 128, ffn = 3072
dim vocab = 151936, seq = 4096, batch = 256
const eps = 1e-6, theta = 1000000, std = 0.02

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    nq : param[head]                          = 1 as "q_norm.weight"
    nk : param[head]                          = 1 as "k_norm.weight"
    q = rope(rmsnorm(x @ wq over hidden, nq, over head, eps = eps), along seq, over head, theta = theta)
    k = rope(rmsnorm(x @ wk over hidden, nk, over head, eps = eps), along seq, over head, theta = theta)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model qwen3(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    loss = cross_entropy((norm(x) as "model.norm") @ embed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 0.0003, warmup = 2000, steps = 100000, floor = 3e-5)
    clip      1.0
}

layout {          # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch                -> dp
    kv_heads, ffn, vocab -> tp
    seq                  -> cp (zigzag), tp
    layers               -> pp (schedule = 1f1b)
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}

config {
    architectures = ["Qwen3ForCausalLM"]
    attention_bias = false
    bos_token_id = 151643
    eos_token_id = 151645
    head_dim = head
    hidden_act = "silu"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = ffn
    max_position_embeddings = 40960
    max_window_layers = 28
    model_type = "qwen3"
    num_attention_heads = kv_heads * group
    num_hidden_layers = layers
    num_key_value_heads = kv_heads
    rms_norm_eps = eps
    rope_scaling = null
    rope_theta = theta
    sliding_window = null
    tie_word_embeddings = true
    torch_dtype = "float32"
    use_cache = true
    use_sliding_window = false
    vocab_size = vocab
}
