# ngpt.mg - nGPT (Loshchilov and others, 2024): weights and states are unit vectors; a layer turns the state a little towards what it
# gives, at rates that are learnt; queries, keys and logits have learnt scales.
dim layers = 2, hidden = 16, heads = 4, head = 4, ffn = 16
dim vocab = 32, seq = 8, batch = 4

block unit(x, over d) {
    return x * rsqrt(sum(x * x, over d))
}

block attend(x[hidden]) {
    wq  : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk  : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv  : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo  : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    sqk : param[heads, head]         = 1 as "scale.weight" [(heads head)]
    q = rope(unit(x @ unit(wq, over hidden) over hidden, over head) * sqk, along seq, over head)
    k = rope(unit(x @ unit(wk, over hidden) over hidden, over head) * sqk, along seq, over head)
    v = x @ unit(wv, over hidden) over hidden
    return attention(q, k, v, along seq, over head, scale = sqrt(head), causal) @ unit(wo, over hidden) over (heads, head)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.3) as "gate.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    su   : param[ffn]         = 1 as "up_scale.weight"
    sg   : param[ffn]         = 1 as "gate_scale.weight"
    u = x @ unit(up, over hidden) over hidden * su
    g = x @ unit(gate, over hidden) over hidden * sg * sqrt(hidden)
    return (u * silu(g)) @ unit(down, over hidden) over ffn
}

block towards(x[hidden], y[hidden]) {
    rate : param[hidden] = 0.1 as "rate.weight"
    return unit(x + abs(rate) * (unit(y, over hidden) - x), over hidden)
}

model ngpt(tokens[batch, seq] : token(vocab)) {
    embed   : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    unembed : param[vocab, hidden] ~ normal(0.3) as "unembed.weight"
    sz      : param[vocab]         = 1 as "logit_scale.weight"
    x = unit(embed, over hidden)[tokens]
    repeat layers as "{}" {
        x = towards(x, attend(x) as "attn") as "a"
        x = towards(x, swiglu(x) as "mlp") as "m"
    }
    loss = cross_entropy(x @ unit(unembed, over hidden) over hidden * sz, next(tokens))
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
