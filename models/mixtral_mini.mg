# mixtral_mini.mg - a mixture of experts of 3.4 million parameters on bytes, of which a token uses 1.6:
# the architecture of mixtral_8x7b.mg in small. Of eight experts each position chooses two by its own
# scores; an expert takes at most `slot` choices of a sequence, and those that come later go without.
#
#   mgc mixtral_mini.mg -o train && ./train --data book.txt --steps 400
dim layers = 4, hidden = 128, kv_heads = 2, group = 2, head = 32, ffn = 224
dim experts = 8, choice = experts, best = 2, slot = ceil(1.25 * best * seq / experts)
dim vocab = 256, seq = 128, batch = 32
const balancing = 0.02

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.02) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(0.02) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden, along seq, over head, theta = 10000)
    k = rope(x @ wk over hidden, along seq, over head, theta = 10000)
    v = x @ wv over hidden
    return attention(q, k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block router(x[hidden]) {
    gate : param[hidden, choice] ~ normal(0.02) as "gate.weight" [choice, hidden]
    return softmax(x @ gate over hidden, over choice)
}

block moe(x[hidden], score[choice]) {
    w1 : param[experts, hidden, ffn] ~ normal(0.02) as "experts.{}.w1.weight" [ffn, hidden]
    w3 : param[experts, hidden, ffn] ~ normal(0.02) as "experts.{}.w3.weight" [ffn, hidden]
    w2 : param[experts, ffn, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "experts.{}.w2.weight" [hidden, ffn]
    chosen = top(score, choice -> best)
    share = scores_of(score, chosen)
    z = dispatch(x, chosen, seq -> (experts, slot))
    y = (silu(z @ w1 over hidden) * (z @ w3 over hidden)) @ w2 over ffn
    return combine(y, chosen, share / sum(share, over best), (experts, slot) -> seq)
}

model mixtral(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02) as "model.embed_tokens.weight"
    x = embed[tokens]
    uneven = 0
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        h = norm(x) as "post_attention_layernorm"
        score = router(h) as "block_sparse_moe"
        x = x + moe(h, score) as "block_sparse_moe"
        uneven = uneven + mean(imbalance(score, top(score, choice -> best), along seq, over best), over batch)
    }
    unembed : param[vocab, hidden] ~ normal(0.02) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens)) + balancing / layers * uneven
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 3e-3, warmup = 40, steps = 400, floor = 3e-4)
    clip      1.0
}

layout {           # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, ep = 1, cp = 1, tp = 1
    experts              -> ep
    batch                -> dp, ep
    kv_heads, ffn, vocab -> tp
    seq                  -> cp (zigzag), tp
    layers               -> pp (schedule = 1f1b)
    microbatch 32  # sequences computed at once; the rest accumulates
    recompute  auto
}
