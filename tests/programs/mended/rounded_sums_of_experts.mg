# Experts' gradients lie in another order than their sum, so they are added to it afterwards: in
# f32, for the sum is rounded once, and bf16 is not added.
dim layers = 2, vocab = 8, hidden = 8, near = 2, experts = 2, best = 2, batch = 4, seq = 2, rows = 4

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3)
    x = embed[tokens]
    repeat layers {
        router : param[hidden, experts] ~ normal(0.3)
        score = softmax(x @ router over hidden, over experts)
        chosen = top(score, experts -> best)
        rows_in = dispatch(x, chosen, seq -> rows)
        up   : param[near, experts, hidden] ~ normal(0.3)
        down : param[experts, near, hidden] ~ normal(0.3)
        y = tanh(grouped(rows_in, up, chosen, experts -> rows, over hidden))
        x = x + combine(grouped(y, down, chosen, experts -> rows, over near), chosen, scores_of(score, chosen), rows -> seq)
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer muon
    lr        cosine(peak = 3, steps = 3)
    precision fp8(master = bf16, reduce = bf16_nearest)
}

layout {
    mesh ep = 2
    batch -> ep
    microbatch 1
}
