# mla.mg - latent attention (DeepSeek-V2, 2024): keys and values of all heads come from one short vector, queries from another;
# positions turn a part of their own, which all heads' keys share.
dim layers = 2, hidden = 16, heads = 2, head = 4, turn = 4, latent = 8, narrow = 4, ffn = 16
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block attend(x[hidden]) {
    dim key = seq
    dq : param[hidden, narrow]      ~ normal(0.3) as "q_a.weight" [narrow, hidden]
    gq : param[narrow]              = 1 as "q_norm.weight"
    uq : param[narrow, heads, head] ~ normal(0.3) as "q_b.weight" [(heads head), narrow]
    rq : param[narrow, heads, turn] ~ normal(0.3) as "q_rope.weight" [(heads turn), narrow]
    dc : param[hidden, latent]      ~ normal(0.3) as "kv_a.weight" [latent, hidden]
    gc : param[latent]              = 1 as "kv_norm.weight"
    uk : param[latent, heads, head] ~ normal(0.3) as "k_b.weight" [(heads head), latent]
    uv : param[latent, heads, head] ~ normal(0.3) as "v_b.weight" [(heads head), latent]
    rk : param[hidden, turn]        ~ normal(0.3) as "k_rope.weight" [turn, hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    a = rmsnorm(x @ dq over hidden, gq, over narrow, eps = 1e-6)
    c = rmsnorm(x @ dc over hidden, gc, over latent, eps = 1e-6)
    still = (a @ uq over narrow) @ (c @ uk over latent)[seq -> key] over head
    moved = rope(a @ rq over narrow, along seq, over turn) @ rope(x @ rk over hidden, along seq, over turn)[seq -> key] over turn
    s = select(index(key) <= index(seq), (still + moved) / sqrt(head + turn), -1e30)
    return softmax(s, over key) @ (c @ uv over latent)[seq -> key] over key @ wo over (heads, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.3) as "gate.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model mla(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1") as "attn"
        x = x + swiglu(norm(x) as "ln2") as "mlp"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
