# hybrid.mg - layers of several kinds: every third one attends, the others have a gated convolution (as in Jamba, LFM2); the first has
# one MLP, the others have experts (as in DeepSeek).
dim layers = 8, hidden = 16, heads = 2, head = 8, ffn = 8, wide = 24, tap = 3
dim experts = 4, choice = experts, best = 2, slot = 5
dim vocab = 32, seq = 8, batch = 4
const dense = 1, every = 3

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.3) as "weight" [(into), (from)]
    return x @ w over from
}

block attend(x[hidden]) {
    q = rope(dense(x, over hidden, over (heads, head)) as "q", along seq, over head)
    k = rope(dense(x, over hidden, over (heads, head)) as "k", along seq, over head)
    y = attention(q, k, dense(x, over hidden, over (heads, head)) as "v", along seq, over head, causal)
    return dense(y, over (heads, head), over hidden) as "o"
}

block convolve(x[hidden]) {
    gate : param[hidden]      = 1 as "gate.weight"
    w    : param[hidden, tap] ~ normal(0.3) as "conv.weight"
    return sigmoid(x * gate) * sum(x[seq - tap] * w, over tap)
}

block moe(x[hidden]) {
    w1 : param[experts, hidden, ffn] ~ normal(0.3) as "experts.{}.up.weight" [ffn, hidden]
    w2 : param[experts, ffn, hidden] ~ normal(0.3) as "experts.{}.down.weight" [hidden, ffn]
    score = softmax(dense(x, over hidden, over choice) as "gate", over choice)
    chosen = top(score, choice -> best)
    y = silu(dispatch(x, chosen, seq -> (experts, slot)) @ w1 over hidden) @ w2 over ffn
    return combine(y, chosen, scores_of(score, chosen), (experts, slot) -> seq)
}

model hybrid(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers at l as "{}" {
        h = norm(x) as "ln1"
        x = x + select(l % every == every - 1, attend(h) as "attn", convolve(h) as "past")
        h = norm(x) as "ln2"
        x = x + select(l < dense, dense(silu(dense(h, over hidden, over wide) as "mlp.up"), over wide, over hidden) as "mlp.down", moe(h) as "moe")
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    microbatch 4
}
