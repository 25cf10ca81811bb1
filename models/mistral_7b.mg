# mistral_7b.mg - Mistral 7B (v0.3, 2024): a llama with grouped queries and full attention.
# Written by mgc import-hf from the published config.json; --init takes the published weights.
dim layers = 32, hidden = 4096, kv_heads = 8, group = 4, head = 128, ffn = 14336
dim vocab = 32768, seq = 4096, batch = 512
const eps = 1e-5, theta = 1000000, std = 0.02

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden, along seq, over head, theta = theta)
    k = rope(x @ wk over hidden, along seq, over head, theta = theta)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model mistral(tokens[batch, seq] : token(vocab)) {
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

layout node8 : default {
    device h100 x 8
    mesh   dp = 2, tp = 4
    state -> dp
    assert peak < 76 GB
}

config {
    architectures = ["MistralForCausalLM"]
    bos_token_id = 1
    eos_token_id = 2
    hidden_act = "silu"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = ffn
    max_position_embeddings = 32768
    model_type = "mistral"
    num_attention_heads = kv_heads * group
    num_hidden_layers = layers
    num_key_value_heads = kv_heads
    rms_norm_eps = eps
    rope_theta = theta
    sliding_window = null
    tie_word_embeddings = false
    torch_dtype = "float32"
    use_cache = true
    vocab_size = vocab
}
