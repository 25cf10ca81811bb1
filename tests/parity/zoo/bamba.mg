# bamba.mg - attention among layers of Mamba 2 (as in Jamba, Zamba, Bamba, 2024), here in every other layer but the first.
dim layers = 5, hidden = 16, kv_heads = 2, group = 2, size = 4, ffn = 16, heads = 4, head = 4, state = 4, tap = 4
dim inner = heads * head, mixed = inner + 2 * state, all = inner + mixed + heads, vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.3) as "weight" [(into), (from)]
    return x @ w over from
}

block mixer(x[hidden]) {
    w    : param[mixed, tap]  ~ normal(0.3) as "conv.weight"
    b    : param[mixed]       = 0 as "conv.bias"
    bd   : param[heads]       = 1 as "dt.bias"
    rate : param[heads]       = log(1 + index(heads)) as "A_log.bias"
    skip : param[heads]       = 1 as "D.weight"
    gain : param[heads, head] = 1 as "norm.weight" [(heads head)]
    p = dense(x, over hidden, over all) as "in"
    c = silu(sum(p[all = inner .. inner + mixed -> mixed][seq - tap] * w, over tap) + b)
    u = c[mixed = 0 .. inner][inner -> (heads, head)]
    r = p[all = inner + mixed .. all -> heads] + bd
    dt = log(1 + exp(-abs(r))) + max(r, 0)
    h = expand(0, over (batch, heads, head, state))
    scan seq {
        h = exp(-exp(rate) * dt) * h + dt * u * c[mixed = inner .. inner + state -> state]
        read = c[mixed = inner + state .. mixed -> state] @ h over state
    }
    y = rmsnorm((read + skip * u) * silu(p[all = 0 .. inner][inner -> (heads, head)]), gain, over (heads, head), eps = 1e-5)
    return dense(y, over (heads, head), over hidden) as "out"
}

block attend(x[hidden]) {
    q = rope(dense(x, over hidden, over (kv_heads, group, size)) as "q", along seq, over size)
    k = rope(dense(x, over hidden, over (kv_heads, size)) as "k", along seq, over size)
    v = dense(x, over hidden, over (kv_heads, size)) as "v"
    return dense(attention(q, k, v, along seq, over size, causal), over (kv_heads, group, size), over hidden) as "o"
}

model bamba(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers at l as "{}" {
        h = norm(x) as "ln1"
        x = x + select((l > 0) * (l % 2 == 0), attend(h) as "attn", mixer(h) as "mamba")
        h = norm(x) as "ln2"
        y = silu(dense(h, over hidden, over ffn) as "mlp.gate") * dense(h, over hidden, over ffn) as "mlp.up"
        x = x + dense(y, over ffn, over hidden) as "mlp.down"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}
