# Repeats in each other that stack two gradients of one shape, one of them made in the storage of what the other reads, and
# one added up over microbatches: each loop takes over the storage that the loop around it means for just that result.
dim vocab = 6, seq = 2, batch = 4, row = 4, inner = 2, layers = 2, heads = 2, col = 4

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[row, vocab] ~ normal(0.5)
    s     : param[]           = 0.5
    x = embed[tokens]
    y = softmax(embed * s, over vocab)
    penalty = 0
    repeat inner {
        repeat layers {
            w     : param[row]               ~ normal(0.3)
            v     : param[col]               ~ normal(0.3)
            u     : param[col]               ~ normal(0.3)
            table : param[row, heads, vocab] ~ normal(0.3)
            bias  : param[]                  = 0.5
            gain  : param[row]               = 0.5
            t = s * w
            y = pow(1 + t * t, y)
            penalty = penalty + 0.3 * s / (2 + ((u + s) @ v over col))
            x = layernorm(max(table[tokens], over heads), gain, bias, over row, eps = 2)
        }
    }
    head : param[row, vocab] ~ normal(0.5)
    loss = cross_entropy(x @ head over row, next(tokens)) + 0.1 * mean(y) + penalty
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    microbatch 1
    recompute  none
}
