# RUN: not %mgc %s -D tp=2 --check 2>&1 | FileCheck %s --check-prefix=CUT
# RUN: not %mgc %s -D hidden=160 --check 2>&1 | FileCheck %s --check-prefix=ROWS
# CUT: error[MG0351]: 'model.layers.{}.self_attn.o_proj.weight' is kept in NF4, and its dim 'kv_heads' of 2 is split into 2 parts
# CUT: note: asked for here
# CUT: help: split it over fewer ranks, or split another dim, or leave out `base = nf4`
# ROWS: error[MG0350]: 'model.layers.{}.self_attn.q_proj.weight', 64 x 160, cannot be kept in NF4: blocks of 64 elements do not make up its rows
# ROWS: help: leave out `base = nf4`, or make rows of a multiple of 64 elements
# RUN: sed 's/base = nf4/base = int8/' %s >%t.mg
# RUN: %mgc %t.mg -D tp=2 -D hidden=160 --check
# RUN: not %mgc %t.mg -D tp=2 -D ffn=255 --check 2>&1 | FileCheck %s --check-prefix=PADDED
# PADDED: error[MG0360]: 'model.layers.{}.mlp.gate_proj.weight', 255 x 128, cannot be kept in 8 bits: it is padded
# PADDED: note: asked for here
# PADDED: help: leave out `base = int8`
dim layers = 2, hidden = 128, kv_heads = 2, group = 2, head = 16, ffn = 256
dim vocab = 256, seq = 24, batch = 4

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

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.02) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.02) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02 / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model llama(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm") as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.02) as "lm_head.weight"
    loss = cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        1e-2
    precision f32
    adapter   lora(rank = 4, base = nf4) on "*.q_proj.weight"
}
layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 4
    recompute  auto
    kv_heads, ffn -> tp
}
