# deepseek_v3.mg - DeepSeek-V3 (2024): latent attention, queries too from a short vector; experts chosen by sigmoid scores, within the best
# groups of experts, beside one that all go through; and after the layers one more that reads the next token and predicts the one after
# it (multi-token prediction), with the same table and head. A bias that only the choice reads makes the use of experts equal: after each
# step it moves by a fixed amount, up where an expert had less than its share. Small as it is here. The published size:
#   671B: -D layers=61 -D hidden=7168 -D heads=128 -D still=128 -D turn=64 -D value=128 -D latent=512 -D narrow=1536 -D wide=18432
#         -D ffn=2048 -D experts=256 -D groups=8 -D kept=4 -D best=8 -D dense=3 -D vocab=129280 -D seq=4096
dim layers = 4, hidden = 128, heads = 4, still = 32, turn = 16, key = still + turn, value = 32, latent = 64, narrow = 64
dim wide = 384, ffn = 96, shared = ffn, half = turn / 2, two = 2, kv = still + value, short = latent + turn
dim experts = 8, choice = experts, groups = 4, member = choice / groups, kept = 2, best = 2, slot = ceil(1.5 * best * seq / experts)
dim vocab = 256, seq = 128, batch = 32, ends = 2, joined = hidden
const dense = 1, balancing = 1e-4, share = 0.3, scaling = 2.5, eps = 1e-6, theta = 10000, std = 0.02

block norm(x, over d) {
    gain : param[d] = 1 as "weight"
    return rmsnorm(x, gain, over d, eps = eps)
}

# The published weights turn neighbours; both sides of a score may be ordered in another way.
block turned(x[turn]) {
    return rope(x[turn -> (half, two)][(two, half) -> turn], along seq, over turn, theta = theta)
}

block attend(x[hidden]) {
    wa  : param[hidden, narrow]       ~ normal(std) as "q_a_proj.weight" [narrow, hidden]
    wq  : param[narrow, heads, key]   ~ normal(std) as "q_b_proj.weight" [(heads key), narrow]
    wkv : param[hidden, short]        ~ normal(std) as "kv_a_proj_with_mqa.weight" [short, hidden]
    up  : param[latent, heads, kv]    ~ normal(std) as "kv_b_proj.weight" [(heads kv), latent]
    wo  : param[heads, value, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (heads value)]
    q = (norm(x @ wa over hidden, over narrow) as "q_a_layernorm") @ wq over narrow
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

# The experts of each position: of the groups whose two best sum up to most.
block choose(score[choice]) {
    g = score[choice -> (groups, member)]
    top_two = top(g, member -> two)
    most = sum(scores_of(g, top_two), over two)
    ranked = top(most, groups -> kept)
    open = max(select(ranked == index(groups), 1, 0), over kept)
    return top(select(open == 1, g, -1e30)[(groups, member) -> choice], choice -> best)
}

block moe(x[hidden]) {
    route : param[hidden, choice]       ~ normal(std) as "gate.weight" [choice, hidden]
    bias  : param[choice]               = 0 as "gate.e_score_correction_bias"
    gate  : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.gate_proj.weight" [ffn, hidden]
    up    : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.up_proj.weight" [ffn, hidden]
    down  : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.down_proj.weight" [hidden, ffn]
    score = sigmoid(x @ route over hidden)
    chosen = choose(score + bias)
    weight = scores_of(score, chosen)
    z = dispatch(x, chosen, seq -> (experts, slot))
    y = (silu(z @ gate over hidden) * (z @ up over hidden)) @ down over ffn
    y = combine(y, chosen, scaling * weight / (sum(weight, over best) + 1e-20), (experts, slot) -> seq)
    uneven = mean(imbalance(score / sum(score, over choice), chosen, along seq, over best)) / best
    used = sum(select(index(choice) == chosen, 1, 0), over (seq, best))
    return y + swiglu(x, over shared) as "shared_experts", uneven, sum((used - mean(used, over choice)) * bias)
}

block mlp(x[hidden]) {
    return swiglu(x, over wide), 0, 0
}

block layer(x[hidden], sparse =) {
    x = x + attend(norm(x, over hidden) as "input_layernorm") as "self_attn"
    h = norm(x, over hidden) as "post_attention_layernorm"
    y, uneven, use = select(sparse, moe(h) as "mlp", mlp(h) as "mlp")
    return x + y, uneven, use
}

model deepseek(tokens[batch, seq] : token(vocab)) {
    embed   : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    x = embed[tokens]
    uneven = 0
    bias_loss = 0
    repeat layers at l as "model.layers.{}" {
        x, more, use = layer(x, sparse = l >= dense)
        uneven = uneven + more
        bias_loss = bias_loss + use
    }
    loss = cross_entropy((norm(x, over hidden) as "model.norm") @ unembed over hidden, next(tokens))
    pair = select(index(ends) == 0, norm(embed[next(tokens)], over hidden) as "model.layers.{layers}.enorm", norm(x, over hidden) as "model.layers.{layers}.hnorm")
    meet : param[ends, hidden, joined] ~ normal(std) as "model.layers.{layers}.eh_proj.weight" [joined, (ends hidden)]
    x, more, use = layer((pair @ meet over (ends, hidden))[joined -> hidden], sparse = 1) as "model.layers.{layers}"
    later = cross_entropy((norm(x, over hidden) as "model.layers.{layers}.shared_head.norm") @ unembed over hidden, next(tokens, by = 2))
    bias_loss = bias_loss + use
    loss = loss + share * later + balancing * (uneven + more)
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-3, warmup = 100, steps = 2000, floor = 1e-4)
    clip      1.0
}

train bias_loss where "*.e_score_correction_bias" {
    optimizer lion(betas = (0, 0))
    lr        constant(peak = 1e-3, steps = 2000)
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
    architectures = ["DeepseekV3ForCausalLM"]
    attention_bias = false
    first_k_dense_replace = dense
    head_dim = turn
    hidden_act = "silu"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = wide
    kv_lora_rank = latent
    max_position_embeddings = seq
    model_type = "deepseek_v3"
    moe_intermediate_size = ffn
    n_group = groups
    n_routed_experts = experts
    n_shared_experts = shared / ffn
    norm_topk_prob = true
    num_attention_heads = heads
    num_experts_per_tok = best
    num_hidden_layers = layers
    num_key_value_heads = heads
    num_nextn_predict_layers = 1
    q_lora_rank = narrow
    qk_nope_head_dim = still
    qk_rope_head_dim = turn
    rms_norm_eps = eps
    rope_theta = theta
    routed_scaling_factor = scaling
    tie_word_embeddings = false
    topk_group = kept
    torch_dtype = "float32"
    v_head_dim = value
    vocab_size = vocab
}
