# A kernel whose result is computed again by its readers has to store more from then on: it had too many results, and was left out.
dim batch = 4, seq = 4, hidden = 4, vocab = 5, heads = 2, head = 2, layers = 2, group = 3

block f8(x, along p) {
    dim t = p
    return x @ x[p -> t] over seq @ (x)[p -> t] over t
}

model random(tokens[batch, seq] : token(vocab)) {
    w1 : param[vocab, hidden] ~ normal(0.5)
    v2 = w1[tokens]
    v3 = w1
    repeat layers at n5 {
        w6 : param[head, vocab, heads] ~ normal(0.5)
        v7 = w6[tokens]
        v9 = (f8(v2, along hidden))
        v10 = v9 @ v9 over (hidden, seq)
        w12 : param[heads, head, hidden] ~ normal(0.4)
        v13 = select(n5 < 1, v7 + v7, v7[(heads, head) -> hidden] @ w12 over hidden)
        w14 : param[hidden, vocab] ~ normal(0.4) as "w14.weight" [hidden, vocab]
        v3 = tanh(v3 + 0.5 * (mean(v13[heads = 1 * heads - 2], over (batch, seq, head, heads)) * w14))
        w15 : param[hidden, vocab] ~ normal(0.4) as "w15.weight" [hidden, vocab]
        v3 = v3 + 0.1 * (mean(v10) * w15)
    }
    v16 = max(v3, over (vocab, hidden))
    v17 = v2 @ v2 over hidden
    v18 = v17[seq = 1 * group + 0]
    w19 : param[head] ~ normal(0.5)
    v20 = join(v18, w19, (group, head) -> vocab)
    v21 = (v16)
    w37 : param[] ~ normal(0.5)
    loss = cross_entropy((mean((w1), over hidden) + v17), (tokens)) * mean(v20 * v20) + 1 * v21 * mean(v18 * v18) + (w37)
}

train {
    optimizer sgd()
    lr        0.1
}
