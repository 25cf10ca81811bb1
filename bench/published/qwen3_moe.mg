# qwen3_moe.mg - Qwen3's sparse models of NVIDIA's tables, any size by -D: 30B-A3B as it is here. The gates of those runs were made to be
# balanced, so an expert has the slots of its share, and nothing is dropped. Ranks of tp have parts of the positions there, which choose
# experts by themselves: -D part=2.
dim layers = 48, hidden = 2048, kv_heads = 4, group = 8, head = 128, ffn = 768
dim experts = 128, choice = experts, best = 8
dim vocab = 151936, seq = 4096, batch = 512, part = 1, place = seq / part, slot = ceil(best * place / experts)
const eps = 1e-6, theta = 1000000, std = 0.02, balancing = 0.001

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight"
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight"
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight"
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight"
    nq : param[head]                          = 1 as "q_norm.weight"
    nk : param[head]                          = 1 as "k_norm.weight"
    q = rope(rmsnorm(x @ wq over hidden, nq, over head, eps = eps), along seq, over head, theta = theta)
    k = rope(rmsnorm(x @ wk over hidden, nk, over head, eps = eps), along seq, over head, theta = theta)
    v = x @ wv over hidden
    mixed = attention(q, k, v, along seq, over head, causal)
    return mixed @ wo over (kv_heads, group, head)
}

block moe(whole[hidden]) {
    route : param[hidden, choice]       ~ normal(std) as "gate.weight"
    gate  : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.gate_proj.weight"
    up    : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.up_proj.weight"
    down  : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.down_proj.weight"
    x = whole[seq -> (part, place)]
    score = softmax(x @ route over hidden, over choice)
    chosen = top(score, choice -> best)
    share = scores_of(score, chosen)
    z = dispatch(x, chosen, place -> (experts, slot))
    y = (silu(z @ gate over hidden) * (z @ up over hidden)) @ down over ffn
    uneven = mean(imbalance(score, chosen, along place, over best), over (batch, part))
    return combine(y, chosen, share / sum(share, over best), (experts, slot) -> place)[(part, place) -> seq], uneven
}

model qwen3_moe(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    uneven = 0
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        y, more = moe(norm(x) as "post_attention_layernorm") as "mlp"
        x = x + y
        uneven = uneven + more
    }
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens)) + balancing / layers * uneven
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
    experts              -> ep
    batch                -> dp, ep
    kv_heads, ffn, vocab -> tp
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}
