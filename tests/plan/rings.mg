# rings.mg - what attention may be, for programs of several ranks: of queries that share their keys, without a mask, of
# keys that come from elsewhere; what is added to it looks at one position, and at positions by number.
dim hidden = 16, heads = 2, group = 4, head = 8, vocab = 8, seq = 16, batch = 8

model rings(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden]              ~ normal(0.3) as "embed"
    spot  : param[seq, hidden]                ~ normal(0.3)
    wq    : param[hidden, group, head]        ~ normal(0.3)
    wk    : param[hidden, head]               ~ normal(0.3)
    wv    : param[hidden, head]               ~ normal(0.3)
    wo    : param[group, head, hidden]        ~ normal(0.3)
    uq    : param[hidden, heads, group, head] ~ normal(0.3)
    uk    : param[hidden, heads, head]        ~ normal(0.3)
    uv    : param[hidden, heads, head]        ~ normal(0.3)
    uo    : param[heads, group, head, hidden] ~ normal(0.3)
    x = embed[tokens] + spot
    y = attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head, causal)
    x = x + y @ wo over (group, head)
    k = spot @ uk over hidden + x @ uk over hidden
    z = attention(x @ uq over hidden, k, x @ uv over hidden, along seq, over head, scale = 0.5)
    x = x + z @ uo over (heads, group, head) + last(x, along seq)
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
}

layout {
    device     cpu
    mesh       dp = 1, cp = 1, tp = 1
    microbatch 8
}
