# nemotron.mg - the Nemotron-4 models (15B, 340B; arXiv 2402.16819, 2406.11704), any size by -D: a squared relu in place of
# a gate, norms with a bias, positions of half a head.
dim layers = 32, hidden = 6144, kv_heads = 8, group = 6, head = 128, ffn = 4 * hidden, turn = head / 2, still = head - turn
dim vocab = 256000, seq = 4096, batch = 64
const eps = 1e-5, theta = 10000, std = 0.0134

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = eps)
}

block turned(x[head]) {
    return join(rope(x[head = 0 .. turn], along seq, over turn, theta = theta), x[head = turn .. head -> still], (turn, still) -> head)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight"
    wk : param[hidden, kv_heads, head]        ~ normal(std) as "k_proj.weight"
    wv : param[hidden, kv_heads, head]        ~ normal(std) as "v_proj.weight"
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight"
    xq = x @ wq over hidden
    xk = x @ wk over hidden
    xv = x @ wv over hidden
    q = turned(xq)
    k = turned(xk)
    mixed = attention(q, k, xv, along seq, over head, causal)
    xo = mixed @ wo over (kv_heads, group, head)
    return xo
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight"
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight"
    xu = x @ up over hidden
    xd = (relu(xu) * relu(xu)) @ down over ffn
    return xd
}

model nemotron(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        x = x + mlp(norm(x) as "post_attention_layernorm") as "mlp"
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
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch                -> dp
    kv_heads, ffn, vocab -> tp
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}
