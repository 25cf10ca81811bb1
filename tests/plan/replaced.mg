# replaced.mg - what a repeat in a repeat carries is replaced in each iteration: its gradient is stacked as it enters the iteration, beside
# that of a parameter which lies over what was kept, and both are slices of the outer repeat's.
dim outer = 2, inner = 3, hidden = 5
dim vocab = 7, seq = 3, batch = 4

model replaced(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    a     : param[hidden]        ~ normal(0.5)
    x = embed[tokens]
    repeat outer as "a.{}" {
        y = a
        repeat inner as "b.{}" {
            v : param[hidden] ~ normal(0.3)
            w : param[hidden] ~ normal(0.3)
            y = v + 0.1 * sin(0 * w)
        }
        x = x + y
    }
    unembed : param[hidden, vocab] ~ normal(0.5)
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    device     cpu
    microbatch 2
    recompute  none
}
