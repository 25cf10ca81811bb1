# gpt2_124m.mg - GPT-2 small (Radford et al. 2019): learned positions, layer norms with bias before
# each half of a layer, the tanh form of gelu, and a head that is the token embedding again.
# External names and shapes are those of the published weights: --init takes them as they are.
# One product makes queries, keys and values; `qkv` tells them apart.
dim layers = 12, hidden = 768, heads = 12, head = 64, ffn = 3072, qkv = 3
dim vocab = 50257, seq = 1024, batch = 8

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    w  : param[hidden, qkv, heads, head] ~ normal(0.02) as "c_attn.weight" [hidden, (qkv heads head)]
    b  : param[qkv, heads, head]         = 0 as "c_attn.bias" [(qkv heads head)]
    wo : param[heads, head, hidden]      ~ normal(0.02 / sqrt(2 * layers)) as "c_proj.weight" [(heads head), hidden]
    bo : param[hidden]                   = 0 as "c_proj.bias"
    y = x @ w over hidden + b
    q = pick(y, along qkv, at = 0)
    k = pick(y, along qkv, at = 1)
    v = pick(y, along qkv, at = 2)
    return attention(q, k, v, along seq, over head, causal) @ wo over (heads, head) + bo
}

block mlp(x[hidden]) {
    w  : param[hidden, ffn] ~ normal(0.02) as "c_fc.weight"
    b  : param[ffn]         = 0 as "c_fc.bias"
    wo : param[ffn, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "c_proj.weight"
    bo : param[hidden]      = 0 as "c_proj.bias"
    return gelu_tanh(x @ w over hidden + b) @ wo over ffn + bo
}

model gpt2(tokens[batch, seq] : token(vocab)) {
    wte : param[vocab, hidden] ~ normal(0.02) as "wte.weight"
    wpe : param[seq, hidden]   ~ normal(0.01) as "wpe.weight"
    x = wte[tokens] + wpe
    repeat layers as "h.{}" {
        x = x + attend(norm(x) as "ln_1") as "attn"
        x = x + mlp(norm(x) as "ln_2") as "mlp"
    }
    loss = cross_entropy((norm(x) as "ln_f") @ wte over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 6e-4, warmup = 700, steps = 20000, floor = 0)
    clip      1.0
}

layout {          # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch             -> dp
    heads, ffn, vocab -> tp
    seq               -> cp (zigzag), tp
    layers            -> pp (schedule = 1f1b)
    microbatch 1  # sequences computed at once; the rest accumulates
    recompute  auto
}
