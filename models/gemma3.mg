# gemma3.mg - Gemma 3, text (2025): five layers that look at the nearest positions alone, then one that looks at all, with slower
# rotary positions; queries and keys are normed over each head. Small as it is here. The published sizes:
#   270M: -D layers=18 -D hidden=640 -D kv_heads=1 -D group=4 -D head=256 -D ffn=2048 -D vocab=262144 -D seq=8192 -D near=512
#   1B:   -D layers=26 -D hidden=1152 -D kv_heads=1 -D group=4 -D head=256 -D ffn=6912 -D vocab=262144 -D seq=8192 -D near=512
dim layers = 8, hidden = 128, kv_heads = 2, group = 2, head = 32, ffn = 512
dim vocab = 256, seq = 256, batch = 16
const near = 64, every = 6  # layers, of which the last one looks at all
const eps = 1e-6, theta = 1000000, theta_near = 10000, std = 0.02, width = hidden

block norm(x[hidden]) {
    gain : param[hidden] = 0 as "weight"
    return rmsnorm(x, 1 + gain, over hidden, eps = eps)
}

block attend(x[hidden], window =, base =) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    nq : param[head]                          = 0 as "q_norm.weight"
    nk : param[head]                          = 0 as "k_norm.weight"
    q = rope(rmsnorm(x @ wq over hidden, 1 + nq, over head, eps = eps), along seq, over head, theta = base)
    k = rope(rmsnorm(x @ wk over hidden, 1 + nk, over head, eps = eps), along seq, over head, theta = base)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal, window = window) @ wo over (kv_heads, group, head)
}

block geglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (gelu_tanh(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model gemma3(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens] * sqrt(width)
    repeat layers at l as "model.layers.{}" {
        all = l % every == every - 1
        h = norm(x) as "input_layernorm"
        y = attend(h, window = select(all, seq, near), base = select(all, theta, theta_near)) as "self_attn"
        x = x + norm(y) as "post_attention_layernorm"
        y = geglu(norm(x) as "pre_feedforward_layernorm") as "mlp"
        x = x + norm(y) as "post_feedforward_layernorm"
    }
    loss = cross_entropy((norm(x) as "model.norm") @ embed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-3, warmup = 100, steps = 2000, floor = 1e-4)
    clip      1.0
}

layout {  # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch                -> dp
    kv_heads, ffn, vocab -> tp
    seq                  -> cp (zigzag), tp
    layers               -> pp (schedule = 1f1b)
    microbatch 4
}

config {
    architectures = ["Gemma3ForCausalLM"]
    attention_bias = false
    head_dim = head
    hidden_activation = "gelu_pytorch_tanh"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = ffn
    max_position_embeddings = 32768
    model_type = "gemma3_text"
    num_attention_heads = kv_heads * group
    num_hidden_layers = layers
    num_key_value_heads = kv_heads
    query_pre_attn_scalar = head
    rms_norm_eps = eps
    rope_local_base_freq = theta_near
    rope_theta = theta
    sliding_window = near
    sliding_window_pattern = every
    tie_word_embeddings = true
    torch_dtype = "float32"
    vocab_size = vocab
}
