# gpt_oss.mg - GPT-OSS of NVIDIA's tables, 120B as it is here: every second layer attends to the last 128 positions alone, each head has a
# learned score that takes of the softmax, and all products have biases, those of experts too. The gates of those runs were made to be
# balanced, so an expert has the slots of its share, and nothing is dropped.
dim layers = 36, hidden = 2880, kv_heads = 8, group = 8, head = 64, ffn = 2880
dim experts = 128, choice = experts, best = 4, slot = ceil(best * seq / experts)
dim vocab = 201088, seq = 4096, batch = 512
const eps = 1e-5, theta = 150000, std = 0.02

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

block attend(x[hidden], near =) {
    wq    : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight"
    bq    : param[kv_heads, group, head]         = 0 as "q_proj.bias"
    wk    : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight"
    bk    : param[kv_heads, head]                = 0 as "k_proj.bias"
    wv    : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight"
    bv    : param[kv_heads, head]                = 0 as "v_proj.bias"
    wo    : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight"
    bo    : param[hidden]                        = 0 as "o_proj.bias"
    sinks : param[kv_heads, group]               = 0 as "sinks"
    q = rope(x @ wq over hidden + bq, along seq, over head, theta = theta)
    k = rope(x @ wk over hidden + bk, along seq, over head, theta = theta)
    v = x @ wv over hidden + bv
    mixed = select(near, attention(q, k, v, along seq, over head, causal, sink = sinks, window = 128), attention(q, k, v, along seq, over head, causal, sink = sinks))
    return mixed @ wo over (kv_heads, group, head) + bo
}

block moe(x[hidden]) {
    route : param[hidden, choice]       ~ normal(std) as "router.weight"
    level : param[choice]               = 0 as "router.bias"
    gate  : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.gate_proj.weight"
    bg    : param[experts, ffn]         = 0 as "experts.{}.gate_proj.bias"
    up    : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.up_proj.weight"
    bu    : param[experts, ffn]         = 0 as "experts.{}.up_proj.bias"
    down  : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.down_proj.weight"
    bd    : param[experts, hidden]      = 0 as "experts.{}.down_proj.bias"
    score = x @ route over hidden + level
    chosen = top(score, choice -> best)
    z = dispatch(x, chosen, seq -> (experts, slot))
    a = min(z @ gate over hidden + bg, 7)
    b = max(min(z @ up over hidden + bu, 7), -7)
    y = (a * sigmoid(1.702 * a) * (b + 1)) @ down over ffn + bd
    return combine(y, chosen, softmax(scores_of(score, chosen), over best), (experts, slot) -> seq)
}

model gpt_oss(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers at l as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm", near = l % 2 == 0) as "self_attn"
        x = x + moe(norm(x) as "post_attention_layernorm") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens))
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
    experts         -> ep
    batch           -> dp, ep
    kv_heads, vocab -> tp
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}
