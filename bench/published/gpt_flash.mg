# gpt_flash.mg - the GPT of gpt.mg with attention that stores no scores, as Megatron-LM and NeMo train it since.
dim layers = 48, hidden = 6144, heads = 64, head = hidden / heads, ffn = 4 * hidden, qkv = 3
dim vocab = 51200, seq = 2048, batch = 8

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    w  : param[hidden, qkv, heads, head] ~ normal(0.02) as "query_key_value.weight"
    b  : param[qkv, heads, head]         = 0 as "query_key_value.bias"
    wo : param[heads, head, hidden]      ~ normal(0.02) as "dense.weight"
    bo : param[hidden]                   = 0 as "dense.bias"
    y = x @ w over hidden + b
    q = pick(y, along qkv, at = 0)
    k = pick(y, along qkv, at = 1)
    v = pick(y, along qkv, at = 2)
    mixed = attention(q, k, v, along seq, over head, causal)
    return mixed @ wo over (heads, head) + bo
}

block mlp(x[hidden]) {
    w  : param[hidden, ffn] ~ normal(0.02) as "dense_h_to_4h.weight"
    b  : param[ffn]         = 0 as "dense_h_to_4h.bias"
    wo : param[ffn, hidden] ~ normal(0.02) as "dense_4h_to_h.weight"
    bo : param[hidden]      = 0 as "dense_4h_to_h.bias"
    wide = x @ w over hidden + b
    return gelu_tanh(wide) @ wo over ffn + bo
}

model gpt(tokens[batch, seq] : token(vocab)) {
    wte : param[vocab, hidden] ~ normal(0.02) as "word_embeddings.weight"
    wpe : param[seq, hidden]   ~ normal(0.02) as "position_embeddings.weight"
    x = wte[tokens] + wpe
    repeat layers as "layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attention"
        x = x + mlp(norm(x) as "post_attention_layernorm") as "mlp"
    }
    loss = cross_entropy((norm(x) as "final_layernorm") @ wte over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-4, warmup = 700, steps = 20000, floor = 0)
    clip      1.0
    precision bf16
}

layout {
    device a100
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch             -> dp
    heads, ffn, vocab -> tp
    microbatch 1
    recompute  all
}
