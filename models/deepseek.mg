# deepseek.mg - DeepSeek-V2 (2024): latent attention, whose keys and values come from one short vector, and beside it one part of a key
# that turns with the position and is shared by all heads; the first layers have one MLP, the others experts and a shared one that all
# go through. Small as it is here. The published size:
#   V2-Lite: -D layers=27 -D hidden=2048 -D heads=16 -D still=128 -D turn=64 -D value=128 -D latent=512 -D wide=10944 -D ffn=1408
#            -D shared=2816 -D experts=64 -D best=6 -D vocab=102400 -D seq=4096
dim layers = 4, hidden = 128, heads = 4, still = 32, turn = 16, key = still + turn, value = 32, latent = 64
dim wide = 384, ffn = 96, shared = 2 * ffn, half = turn / 2, two = 2, kv = still + value, short = latent + turn
dim experts = 8, choice = experts, best = 2, slot = ceil(1.5 * best * seq / experts)
dim vocab = 256, seq = 128, batch = 32
const dense = 1, balancing = 0.001, eps = 1e-6, theta = 10000, std = 0.02

block norm(x, over d) {
    gain : param[d] = 1 as "weight"
    return rmsnorm(x, gain, over d, eps = eps)
}

# The published weights turn neighbours; both sides of a score may be ordered in another way.
block turned(x[turn]) {
    return rope(x[turn -> (half, two)][(two, half) -> turn], along seq, over turn, theta = theta)
}

block attend(x[hidden]) {
    wq  : param[hidden, heads, key]   ~ normal(std) as "q_proj.weight" [(heads key), hidden]
    wkv : param[hidden, short]        ~ normal(std) as "kv_a_proj_with_mqa.weight" [short, hidden]
    up  : param[latent, heads, kv]    ~ normal(std) as "kv_b_proj.weight" [(heads kv), latent]
    wo  : param[heads, value, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (heads value)]
    q = x @ wq over hidden
    c = x @ wkv over hidden
    both = (norm(c[short = 0 .. latent], over latent) as "kv_a_layernorm") @ up over latent
    q = join(q[key = 0 .. still], turned(q[key = still .. key -> turn]), (still, turn) -> key)
    k = join(both[kv = 0 .. still], turned(c[short = latent .. short -> turn]), (still, turn) -> key)
    v = both[kv = still .. kv -> value]
    return attention(q, k, v, along seq, over key, causal) @ wo over (heads, value)
}

block swiglu(x[hidden], over width) {
    gate : param[hidden, width] ~ normal(std) as "gate_proj.weight" [width, hidden]
    up   : param[hidden, width] ~ normal(std) as "up_proj.weight" [width, hidden]
    down : param[width, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, width]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over width
}

# The sum of the chosen experts and the shared one, and how unevenly they are used.
block moe(x[hidden]) {
    route : param[hidden, choice]       ~ normal(std) as "gate.weight" [choice, hidden]
    gate  : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.gate_proj.weight" [ffn, hidden]
    up    : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.up_proj.weight" [ffn, hidden]
    down  : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.down_proj.weight" [hidden, ffn]
    score = softmax(x @ route over hidden, over choice)
    chosen = top(score, choice -> best)
    z = dispatch(x, chosen, seq -> (experts, slot))
    y = (silu(z @ gate over hidden) * (z @ up over hidden)) @ down over ffn
    y = combine(y, chosen, scores_of(score, chosen), (experts, slot) -> seq)
    return y + swiglu(x, over shared) as "shared_experts", mean(imbalance(score, chosen, along seq, over best))
}

block mlp(x[hidden]) {
    return swiglu(x, over wide), 0
}

model deepseek(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    uneven = 0
    repeat layers at l as "model.layers.{}" {
        x = x + attend(norm(x, over hidden) as "input_layernorm") as "self_attn"
        h = norm(x, over hidden) as "post_attention_layernorm"
        y, more = select(l < dense, mlp(h) as "mlp", moe(h) as "mlp")
        x = x + y
        uneven = uneven + more
    }
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    loss = cross_entropy((norm(x, over hidden) as "model.norm") @ unembed over hidden, next(tokens)) + balancing / layers * uneven
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-3, warmup = 100, steps = 2000, floor = 1e-4)
    clip      1.0
}

layout {  # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, ep = 1, tp = 1
    experts                 -> ep
    batch                   -> dp, ep
    heads, wide, ffn, vocab -> tp
    layers                  -> pp (schedule = 1f1b)
    microbatch 8
}

config {
    architectures = ["DeepseekV2ForCausalLM"]
    attention_bias = false
    aux_loss_alpha = balancing
    first_k_dense_replace = dense
    head_dim = turn
    hidden_act = "silu"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = wide
    kv_lora_rank = latent
    max_position_embeddings = seq
    model_type = "deepseek_v2"
    moe_intermediate_size = ffn
    n_group = null
    n_routed_experts = experts
    n_shared_experts = shared / ffn
    norm_topk_prob = false
    num_attention_heads = heads
    num_experts_per_tok = best
    num_hidden_layers = layers
    num_key_value_heads = heads
    q_lora_rank = null
    qk_nope_head_dim = still
    qk_rope_head_dim = turn
    rms_norm_eps = eps
    rope_theta = theta
    routed_scaling_factor = 1.0
    tie_word_embeddings = false
    topk_group = null
    topk_method = "greedy"
    torch_dtype = "float32"
    v_head_dim = value
    vocab_size = vocab
}
