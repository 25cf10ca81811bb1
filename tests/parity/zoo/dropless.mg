# dropless.mg - experts that take all that chose them (Gale and others, MegaBlocks, 2022): sorted rows; matrices in both orders
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 8
dim experts = 6, choice = experts, best = 2, rows = best * seq
dim vocab = 32, seq = 8, batch = 4

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

block router(x[hidden]) {
    gate : param[hidden, choice] ~ normal(0.3) as "gate.weight" [choice, hidden]
    return softmax(x @ gate over hidden, over choice)
}

block moe(x[hidden], score[choice]) {
    w1 : param[experts, hidden, ffn] ~ normal(0.3) as "experts.{}.gate.weight" [ffn, hidden]
    w3 : param[experts, ffn, hidden] ~ normal(0.3) as "experts.{}.up.weight" [ffn, hidden]
    w2 : param[experts, hidden, ffn] ~ normal(0.3) as "experts.{}.down.weight" [hidden, ffn]
    chosen = top(score, choice -> best)
    share = scores_of(score, chosen)
    z = dispatch(x, chosen, seq -> rows)
    y = silu(grouped(z, w1, chosen, experts -> rows, over hidden)) * grouped(z, w3, chosen, experts -> rows, over hidden)
    return combine(grouped(y, w2, chosen, experts -> rows, over ffn), chosen, share / sum(share, over best), rows -> seq)
}

model dropless(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    uneven = 0
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1") as "attn"
        h = norm(x) as "ln2"
        score = router(h) as "moe"
        x = x + moe(h, score) as "moe"
        uneven = uneven + mean(imbalance(score, top(score, choice -> best), along seq, over best), over batch)
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens)) + 0.01 * uneven
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
