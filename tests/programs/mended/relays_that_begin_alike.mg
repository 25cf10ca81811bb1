# Forward and backward relay begin with one value, zeros.
dim head = 2, seq = 4, layers = batch / 4
dim vocab = batch - 1, hidden = 2, batch = 8, near = batch / 2, row = 8, other = 4
dim ffn = batch - 2, outer = 1, heads = batch / 4
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed4 : param[vocab, hidden] ~ normal(0.3) as "embed4.weight" x = embed4[tokens]
    penalty = 0
    w5 : param[near, vocab, row, other] = 0.5
    w6 : param[other, near, vocab] ~ normal(0.3)
    w7 : param[row, near] ~ uniform(0.5, 0.5)
    v8 = min((((penalty * w5) @ w6 over (vocab, other)) @ w7 over (near, row)), (penalty))
    repeat layers {
        repeat outer {
            w10 : param[other] ~ normal(0.3)
            w11 : param[] ~ normal(0.3) as "w11.bias" w12 : param[other, row] ~ normal(0.3)
            x = (((x * index(row) * w10)) @ w12 over (row, other))
            w13 : param[near, ffn] = 1
            w14 : param[other, near] ~ normal(0.3)
            v8 = v8 + (((w10 + (index(ffn) * 0.5)) @ (penalty * w13) over ffn) @ w14 over (other, near))
        }
        w15 : param[hidden, heads, near] ~ normal(0.3) as "w15.bias" [heads, hidden, near]
        w16 : param[hidden, heads, near] = (1.5 )
        w17 : param[heads] = 0.5
        penalty = penalty + 0.3 * ((w15 @ w16 over (near, hidden)) @ w17 over heads)
    }
    w18 : param[vocab, ffn] ~ normal(0.3)
    w19 : param[] ~ uniform(0.5, 0.5) as "w19.weight"
    loss = cross_entropy((attention(sum(x, over hidden) + w18, weight * (vocab) * index(ffn), weight * w19, along seq, over ffn)), next(tokens), weight)
}
train {
    optimizer adafactor()
    lr linear(peak = 1e2, steps = 10)
}
layout {
    mesh pp = 2
    layers -> pp
}
