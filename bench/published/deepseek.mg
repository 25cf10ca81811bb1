# deepseek.mg - DeepSeek-V3 (671B, as it is here) and Kimi K2 of NVIDIA's tables, without the layer behind the layers that predicts one
# token more. The gates of those runs were made to be balanced, so an expert has the slots of its share, and nothing is dropped; and the
# best experts are chosen among all. Ranks of tp have parts of the positions there, which choose experts by themselves: -D part=2.
dim layers = 61, hidden = 7168, heads = 128, still = 128, turn = 64, key = still + turn, value = 128, latent = 512, narrow = 1536
dim wide = 18432, ffn = 2048, shared = ffn, kv = still + value, short = latent + turn
dim experts = 256, choice = experts, best = 8
dim vocab = 129280, seq = 4096, batch = 512, part = 1, place = seq / part, slot = ceil(best * place / experts)
const dense = 3, balancing = 1e-4, scaling = 2.5, eps = 1e-6, theta = 10000, std = 0.02

block norm(x, over d) {
    gain : param[d] = 1 as "weight"
    return rmsnorm(x, gain, over d, eps = eps)
}

# The published weights turn neighbours, these halves: as much work, and a score is the same in either order.
block turned(x[turn]) {
    return rope(x, along seq, over turn, theta = theta)
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

block routed(whole[hidden]) {
    route : param[hidden, choice]       ~ normal(std) as "gate.weight" [choice, hidden]
    gate  : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.gate_proj.weight" [ffn, hidden]
    up    : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.up_proj.weight" [ffn, hidden]
    down  : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.down_proj.weight" [hidden, ffn]
    x = whole[seq -> (part, place)]
    score = sigmoid(x @ route over hidden)
    chosen = top(score, choice -> best)
    weight = scores_of(score, chosen)
    z = dispatch(x, chosen, place -> (experts, slot))
    y = (silu(z @ gate over hidden) * (z @ up over hidden)) @ down over ffn
    y = combine(y, chosen, scaling * weight / (sum(weight, over best) + 1e-20), (experts, slot) -> place)[(part, place) -> seq]
    return y, mean(imbalance(score / sum(score, over choice), chosen, along place, over best), over (batch, part)) / best
}

block moe(x[hidden]) {
    y, uneven = routed(x)
    return y + swiglu(x, over shared) as "shared_experts", uneven
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
    lr        cosine(peak = 0.0003, warmup = 2000, steps = 250000, floor = 3e-5)
    clip      1.0
    precision bf16
}

layout {
    device h100
    mesh   pp = 1, dp = 1, ep = 1, cp = 1, tp = 1
    experts                 -> ep
    batch                   -> dp, ep
    heads, wide, shared, vocab -> tp
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}
