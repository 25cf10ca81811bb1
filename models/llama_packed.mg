# llama_packed.mg - llama_mini.mg on documents that are packed into windows: attention sees what is before it in its own document,
# positions begin anew with each, no token is the target of another document's last one, and what fills a window up counts nothing.
#
#   mgc tok --tokenizer tokenizer.json -o corpus pages.jsonl && mgc llama_packed.mg -D vocab=50257 -o train
#   ./train --data corpus.bin --steps 400
#
# Another model is packed likewise: `weight` is beside its tokens and in its loss, `start` in rope and in attention.
dim layers = 4, hidden = 160, kv_heads = 5, group = 2, head = 16, ffn = 432
dim vocab = 256, seq = 256, batch = 16

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden], start) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.02) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(0.02) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = rope(x @ wq over hidden, start, along seq, over head, theta = 10000)
    k = rope(x @ wk over hidden, start, along seq, over head, theta = 10000)
    v = x @ wv over hidden
    return attention(q, k, v, start, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.02) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.02) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model llama(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    start = document_start(tokens, along seq)  # where the data say that documents begin
    embed : param[vocab, hidden] ~ normal(0.02) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm", start) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.02) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens), weight)
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 3e-3, warmup = 40, steps = 400, floor = 3e-4)
    clip      1.0
}

layout {           # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch                -> dp
    kv_heads, ffn, vocab -> tp
    seq                  -> cp (zigzag), tp
    layers               -> pp (schedule = 1f1b)
    microbatch 16  # sequences computed at once; the rest accumulates
    recompute  auto
}
