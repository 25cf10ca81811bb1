# qwen2.5_7b.mg - Qwen2.5 (2024) of 7B parameters, with a head of its own. qwen2.5_14b.mg has the larger ones.
# --init takes the published weights.
dim layers = 28, hidden = 3584, kv_heads = 4, group = 7, head = 128, ffn = 18944
dim vocab = 152064, seq = 1024, batch = 512
const eps = 1e-6, theta = 1000000, std = 0.02

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight" [(kv_heads group head), hidden]
    bq : param[kv_heads, group, head]         = 0 as "q_proj.bias" [(kv_heads group head)]
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight" [(kv_heads head), hidden]
    bk : param[kv_heads, head]                = 0 as "k_proj.bias" [(kv_heads head)]
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight" [(kv_heads head), hidden]
    bv : param[kv_heads, head]                = 0 as "v_proj.bias" [(kv_heads head)]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden + bq, along seq, over head, theta = theta)
    k = rope(x @ wk over hidden + bk, along seq, over head, theta = theta)
    v = x @ wv over hidden + bv
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model qwen2_5(tokens[batch, seq] : token(vocab)) {
    embed   : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    lm_head : param[hidden, vocab] ~ normal(std) as "lm_head.weight" [vocab, hidden]
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
    precision bf16(master = bf16)
}

layout {
    device     h100
    microbatch 8
    recompute  auto
    offload    auto
}

layout rtx4090 : default {
    device     rtx4090
    microbatch 16
}

layout rtx5060ti : default {
    device     rtx5060ti
    microbatch 8
}

config {
    architectures = ["Qwen2ForCausalLM"]
    bos_token_id = 151643
    eos_token_id = 151643
    hidden_act = "silu"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = ffn
    max_position_embeddings = 131072
    max_window_layers = layers
    model_type = "qwen2"
    num_attention_heads = kv_heads * group
    num_hidden_layers = layers
    num_key_value_heads = kv_heads
    rms_norm_eps = eps
    rope_theta = theta
    sliding_window = 131072
    tie_word_embeddings = false
    torch_dtype = "bfloat16"
    use_cache = true
    use_sliding_window = false
    vocab_size = vocab
}
