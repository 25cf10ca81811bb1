# Attention with a window, a cap, documents and values of another width: the proof holds on one rank
# and in a ring, where all of the mask is a number of keys and a first key for each query.
# RUN: %mgc %s --check
# RUN: %mgc %s -D cp=4 -D tp=2 --check
# RUN: %mgc %s --emit=c | FileCheck %s --check-prefix=ONE
# RUN: %mgc %s -D cp=4 --emit=c | FileCheck %s --check-prefix=RING
# RUN: %mgc %s --device h100 --check
# ONE: mg_attention_part(r
# ONE-NEXT: NULL, NULL,
# ONE-NEXT: (const int32_t *)
# ONE: .cap = 2, .window = 20,
# RING-NOT: .window
# RING: .first = {
dim layers = 2, hidden = 32, kv_heads = 2, group = 2, head = 8, vhead = 12, ffn = 64
dim vocab = 256, seq = 64, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block attend(x[hidden], begin) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02) as "q_proj.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.02) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, vhead]        ~ normal(0.02) as "v_proj.weight" [(kv_heads vhead), hidden]
    wo : param[kv_heads, group, vhead, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group vhead)]
    q = rope(x @ wq over hidden, begin, along seq, over head, theta = 10000)
    k = rope(x @ wk over hidden, begin, along seq, over head, theta = 10000)
    v = x @ wv over hidden
    return attention(q, k, v, begin, along seq, over head, causal, window = 20, cap = 2) @ wo over (kv_heads, group, vhead)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.02) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.02) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model llama(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02) as "model.embed_tokens.weight"
    x = embed[tokens]
    begin = document_start(tokens, along seq, separator = 10)
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm", begin) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.02) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens))
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
    microbatch 2  # sequences computed at once; the rest accumulates
    recompute  auto
}
