# A state that is one number for each parameter has no last dim to round by: exit 70.
dim ffn = batch / 4, layers = 4, row = 4
dim hidden = batch
dim seq = batch, group = batch / 2, vocab = 3
dim batch = 4
dim col = batch / 2, near = 2, head = batch
const c1 = max(1, layers)
block f2(x4, y5[], y6 : token(vocab), over d3, o7 =) {
    repeat layers at n9 as "r8.{}" {
        w10 : param[ffn] = n9 as "w10.weight"
        w11 : param[row, seq, vocab] = 0.2 * tanh(normal(1)) + uniform(-0.1, 0.1) as "w11.{}.weight"
        x4 = x4 + select(valid(head), (x4 + (index(seq) * 0.25))[head = 1 * head + 2 * vocab + -1] @ w11 over (seq, vocab), 0)
        w12 : param[seq, d3] ~ normal(0.3)
        w13 : param[d3, seq] = 1
        x4 = x4 + 0.3 * ((-tanh(x4 + w12)) @ w13 over (d3, seq))
    }
    fuse14 : param[near, group, col] ~ normal(0.3)
    w15 : param[d3, near] ~ normal(0.3)
    w16 : param[near] ~ normal(0.1 / sqrt(7))
    w17 : param[d3] = 1
    fused18 = select((w16 * (index(head) * 1.5) * w17) < 0.5, min(x4, over (ffn, row)) * w15, max(x4, over (row, ffn)) + (index(d3) * c1) * w16) @ fuse14 over near
    w19 : param[seq] ~ uniform(-0.5, 0.5)
    w20 : param[head, col, row, d3] = o7
    return attention(attention(sum(fused18, over group) * w19, min(fused18, over group) * (index(seq) * o7), max(fused18, over group), along head, over seq, causal), pick(fused18, along group, at = 1), pick(fused18, along group, at = 0), along d3, over col, causal) @ w20 over (d3, col)
}
model m(tokens[batch, seq] : token(vocab)) {
    embed21 : param[col, vocab] = 0.2 * tanh(normal(1)) + uniform(-0.1, 0.1)
    x = embed21[tokens]
    penalty = 0
    v22 = (0.1 * step())
    w23 : param[seq, head, col] ~ normal(0.1 / sqrt(5))
    w24 : param[vocab, col, head] ~ normal(0.3)
    w25 : param[vocab, ffn, seq] ~ normal(0.1 / sqrt(3))
    v22 = w25 @ (sin(v22 * w23) @ w24 over (col, head)) over (vocab, seq)
    repeat layers at n27 as "r26.{}" {
        p28 : param[seq, ffn, vocab] ~ normal(0.3)
        w29 : param[row, col] = n27
        w30 : param[row] = 0.2 * tanh(normal(1)) + uniform(-0.1, 0.1) as "w30.weight" [row at 0]
        w31 : param[row] = (2 + c1) as "w30.weight" [row at row]
        w32 : param[row, col, group, vocab] = 0.5 as "w32.weight" [group at 0, col, vocab, row]
        w33 : param[row, col, group, vocab] = 0.5 as "w32.weight" [group at group, col, vocab, row]
        v34 = select(n27 < 1, uniform(over (col, vocab, row)), rotate(penalty + w29 + 0 * embed21 * w30, over col)) @ w32 over row
        w35 : param[ffn] ~ normal(0.3)
        w36 : param[row] ~ normal(0.1 / sqrt(3))
        v22 = v22 + softmax(select(valid(ffn), (w31 * w35) @ w36 over row, 0), over ffn)
    }
    head37 : param[col, vocab] = 0.5 as "head37.{}.weight"
    loss = cross_entropy(x @ head37 over col, next(tokens))
    metric metric_38 = sqrt(1 + mean(head37 * head37))
}
train {
    optimizer own39(rho = 0.75, state = bf16)
    lr cosine(peak = 1e-2, warmup = 3, steps = 10, floor = 1e-3)
    average 0.9
    precision bf16(reduce = bf16)
}
optimizer own39(rho = 0.9, decay = 0) {
    state s0
    state s1 = -1
    state one[] = 1
    one = rho * one + tanh(mean(g, over all))
    s0 = rho * s0 + (1 - rho) * g
    s1 = rho * s1 + (1 - rho) * sin(s1) * (1 - lr) / sqrt(sin(s1) * (1 - lr) * sin(s1) * (1 - lr) + 0.5)
    p = decayed(p, lr, decay = decay)
    p = p - lr * (g + rho * g)
}

layout {
    mesh dp = 2
    device b200
    batch -> dp
    state -> dp


}
