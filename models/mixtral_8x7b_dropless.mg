# mixtral_8x7b_dropless.mg - mixtral_8x7b.mg without slots: each choice of a position has a row, sorted by expert, and
# products are grouped by expert. So nothing is dropped, as in the published model's own code, and nothing is computed
# for slots that are free. An expert takes as many choices as there are; the rows of a sequence are always
# best * seq, so that memory is known. The layouts give ranks all experts, split along ffn. Where `experts` are split on an
# axis (-D ep=8), rows are sent to them, or their matrices gathered for each product, whichever plans say is faster.
dim layers = 32, hidden = 4096, kv_heads = 8, group = 4, head = 128, ffn = 14336
dim experts = 8, choice = experts, best = 2, rows = best * seq
dim vocab = 32000, seq = 4096, batch = 512
const eps = 1e-5, theta = 1000000, std = 0.02, balancing = 0.02

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

block router(x[hidden]) {
    gate : param[hidden, choice] ~ normal(std) as "gate.weight" [choice, hidden]
    return softmax(x @ gate over hidden, over choice)
}

block moe(x[hidden], score[choice]) {
    w1 : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.w1.weight" [ffn, hidden]
    w3 : param[experts, hidden, ffn] ~ normal(std) as "experts.{}.w3.weight" [ffn, hidden]
    w2 : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.w2.weight" [hidden, ffn]
    chosen = top(score, choice -> best)
    share = scores_of(score, chosen)
    z = dispatch(x, chosen, seq -> rows)
    gate = grouped(z, w1, chosen, experts -> rows, over hidden)
    up = grouped(z, w3, chosen, experts -> rows, over hidden)
    y = grouped(silu(gate) * up, w2, chosen, experts -> rows, over ffn)
    return combine(y, chosen, share / sum(share, over best), rows -> seq)
}

model mixtral(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    uneven = 0
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        h = norm(x) as "post_attention_layernorm"
        score = router(h) as "block_sparse_moe"
        x = x + moe(h, score) as "block_sparse_moe"
        uneven = uneven + mean(imbalance(score, top(score, choice -> best), along seq, over best), over batch)
    }
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens)) + balancing / layers * uneven
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 3e-4, warmup = 2000, steps = 250000, floor = 3e-5)
    clip      1.0
}

layout {          # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, ep = 1, cp = 1, tp = 1
    experts              -> ep
    batch                -> dp, ep
    kv_heads, ffn, vocab -> tp
    seq                  -> cp (zigzag), tp
    layers               -> pp (schedule = 1f1b)
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}

layout node8 : default {  # an eighth of each expert a rank
    device h200 x 8
    mesh   tp = 8
    state, grads -> tp
    assert peak < 141 GB
}

layout node64 : default {
    device h100 x 64
    mesh   dp = 8, tp = 8
    state, grads -> dp
    assert peak < 76 GB
}

config {
    architectures = ["MixtralForCausalLM"]
    bos_token_id = 1
    eos_token_id = 2
    hidden_act = "silu"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = ffn
    max_position_embeddings = 32768
    model_type = "mixtral"
    num_attention_heads = kv_heads * group
    num_hidden_layers = layers
    num_experts_per_tok = best
    num_key_value_heads = kv_heads
    num_local_experts = experts
    rms_norm_eps = eps
    rope_theta = theta
    router_aux_loss_coef = balancing
    sliding_window = null
    tie_word_embeddings = false
    torch_dtype = "float32"
    use_cache = true
    vocab_size = vocab
}
