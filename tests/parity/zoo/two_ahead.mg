# two_ahead.mg - multi-token prediction (DeepSeek-V3, 2024) on windows of tokens: each iteration behind the layers takes the state before it
# and the token that it predicted, and predicts the one after it. Tokens have weights; table and head are shared.
dim layers = 2, depth = 2, hidden = 16, heads = 2, head = 8, ffn = 16, both = 2
dim vocab = 32, seq = 8, batch = 4
const share = 0.3

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block attend(x[hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    q = rope(x @ wq over hidden, along seq, over head)
    k = rope(x @ wk over hidden, along seq, over head)
    return attention(q, k, x @ wv over hidden, along seq, over head, causal) @ wo over (heads, head)
}

block layer(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "mlp.up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "mlp.down.weight" [hidden, ffn]
    y = x + attend(norm(x) as "ln1") as "attn"
    return y + silu((norm(y) as "ln2") @ up over hidden) @ down over ffn
}

model ahead(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = layer(x)
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens), weight)
    repeat depth at d as "mtp.{}" {
        meet : param[both, hidden, joined] ~ normal(0.3) as "meet.weight" [joined, (both hidden)]
        pair = select(index(both) == 0, norm(x) as "left", norm(embed[next(tokens, by = d + 1)]) as "right")
        x = layer((pair @ meet over (both, hidden))[joined -> hidden])
        loss = loss + share * cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens, by = d + 2), next(weight, by = d + 1))
    }
}

dim joined = hidden

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
