# gemma2.mg - Gemma 2 (2024): every second layer looks at the nearest positions alone; scores and logits end softly at a cap; a norm
# before and one after each half of a layer. Small as it is here. The published sizes:
#   2B:  -D layers=26 -D hidden=2304 -D kv_heads=4 -D group=2 -D head=256 -D ffn=9216 -D vocab=256000 -D seq=8192 -D near=4096
#   9B:  -D layers=42 -D hidden=3584 -D kv_heads=8 -D group=2 -D head=256 -D ffn=14336 -D vocab=256000 -D seq=8192 -D near=4096
#   27B: -D layers=46 -D hidden=4608 -D kv_heads=16 -D group=2 -D head=128 -D ffn=36864 -D vocab=256000 -D seq=8192 -D near=4096 -D scaled=144
dim layers = 4, hidden = 128, kv_heads = 2, group = 2, head = 32, ffn = 512
dim vocab = 256, seq = 256, batch = 16
const near = 64, scaled = head  # scores are divided by the root of this
const score_cap = 50.0, logit_cap = 30.0
const eps = 1e-6, theta = 10000, std = 0.02, width = hidden

block norm(x[hidden]) {
    gain : param[hidden] = 0 as "weight"
    return rmsnorm(x, 1 + gain, over hidden, eps = eps)
}

block attend(x[hidden], window =) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden, along seq, over head, theta = theta)
    k = rope(x @ wk over hidden, along seq, over head, theta = theta)
    v = x @ wv over hidden
    y = attention(q, k, v, along seq, over head, causal, window = window, cap = score_cap, scale = 1 / sqrt(scaled))
    return y @ wo over (kv_heads, group, head)
}

block geglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (gelu_tanh(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model gemma2(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens] * sqrt(width)
    repeat layers at l as "model.layers.{}" {
        y = attend(norm(x) as "input_layernorm", window = select(l % 2 == 0, near, seq)) as "self_attn"
        x = x + norm(y) as "post_attention_layernorm"
        y = geglu(norm(x) as "pre_feedforward_layernorm") as "mlp"
        x = x + norm(y) as "post_feedforward_layernorm"
    }
    z = (norm(x) as "model.norm") @ embed over hidden
    loss = cross_entropy(logit_cap * tanh(z / logit_cap), next(tokens))
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
    architectures = ["Gemma2ForCausalLM"]
    attention_bias = false
    attn_logit_softcapping = score_cap
    final_logit_softcapping = logit_cap
    head_dim = head
    hidden_act = "gelu_pytorch_tanh"
    hidden_activation = "gelu_pytorch_tanh"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = ffn
    max_position_embeddings = 8192
    model_type = "gemma2"
    num_attention_heads = kv_heads * group
    num_hidden_layers = layers
    num_key_value_heads = kv_heads
    query_pre_attn_scalar = scaled
    rms_norm_eps = eps
    rope_theta = theta
    sliding_window = near
    tie_word_embeddings = true
    torch_dtype = "float32"
    vocab_size = vocab
}
