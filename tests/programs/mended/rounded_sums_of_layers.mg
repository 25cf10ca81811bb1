# A weight is read as it is and as halves, and its sum is rounded: the rounding read the sum of both gradients, with the layers that
# a stage does not have.
dim near = 4, ffn = 4, layers = 2, batch = 4, hidden = 6
dim other = 2, col = 3

model m(x[batch]) {
    penalty = 0
    w34 : param[ffn] = 1
    repeat near {
        w48 : param[hidden] = 1
        penalty = penalty + 0.3 * (dropout(w48, p = 0.5) @ w48 over hidden)
    }
    repeat layers {
        w51 : param[col, other] = 0.5
        w52 : param[ffn]        ~ normal(0.3)
        penalty = penalty + 0.3 * ((w51 @ (w34 * w51) over (other, col)) @ w52 over ffn)
    }
    loss = 3 * 0.25 * penalty
}

train {
    optimizer adam()
    lr        linear(peak = 1e2, steps = 10)
    precision bf16(reduce = bf16)
}

layout {
    mesh pp = 2
    layers -> pp
}
