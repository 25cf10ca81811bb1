# grouped_experts.mg - the experts of DeepSeek-V3 (2024): chosen by sigmoid scores within the best groups; a bias that the choice alone
# reads makes their use equal: each step moves it by a fixed amount.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 8, two = 2, vocab = 32, seq = 8, batch = 4
dim experts = 8, choice = experts, groups = 4, member = 2, kept = 2, best = 2, slot = seq

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.3) as "weight" [(into), (from)]
    return x @ w over from
}

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block attend(x[hidden]) {
    q = rope(dense(x, over hidden, over (heads, head)) as "q", along seq, over head)
    k = rope(dense(x, over hidden, over (heads, head)) as "k", along seq, over head)
    y = attention(q, k, dense(x, over hidden, over (heads, head)) as "v", along seq, over head, causal)
    return dense(y, over (heads, head), over hidden) as "o"
}

block layer(x[hidden]) {
    bias : param[choice]               = 0 as "moe.bias"
    up   : param[experts, hidden, ffn] ~ normal(0.3) as "moe.experts.{}.up.weight" [ffn, hidden]
    down : param[experts, ffn, hidden] ~ normal(0.3) as "moe.experts.{}.down.weight" [hidden, ffn]
    x = x + attend(norm(x) as "ln1") as "attn"
    h = norm(x) as "ln2"
    score = sigmoid(dense(h, over hidden, over choice) as "moe.gate")
    g = (score + bias)[choice -> (groups, member)]
    open = max(select(index(groups) == top(sum(scores_of(g, top(g, member -> two)), over two), groups -> kept), 1, 0), over kept)
    chosen = top(select(open == 1, g, -1e30)[(groups, member) -> choice], choice -> best)
    share = scores_of(score, chosen)
    y = silu(dispatch(h, chosen, seq -> (experts, slot)) @ up over hidden) @ down over ffn
    y = combine(y, chosen, 2.5 * share / sum(share, over best), (experts, slot) -> seq)
    shared = dense(silu(dense(h, over hidden, over ffn) as "moe.shared.up"), over ffn, over hidden) as "moe.shared.down"
    return x + y + shared, sum((sum(select(index(choice) == chosen, 1, 0), over (seq, best)) - best * seq / choice) * bias)
}

model grouped(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    bias_loss = 0
    repeat layers as "{}" {
        x, uneven = layer(x)
        bias_loss = bias_loss + uneven
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

train bias_loss where "*.bias" {
    optimizer lion(betas = (0, 0))
    lr        0.05
}
