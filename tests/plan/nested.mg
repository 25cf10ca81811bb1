# nested.mg - three repeats in each other, with parameters in the innermost, and a penalty that they carry, which is made of
# parameters alone.
dim outer = 2, middle = 3, inner = 2, hidden = 5
dim vocab = 7, seq = 3, batch = 4

model nested(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    x = embed[tokens]
    penalty = 0
    repeat outer as "a.{}" {
        repeat middle as "b.{}" {
            g : param[hidden] = 1
            repeat inner as "c.{}" {
                w : param[hidden] ~ normal(0.3)
                x = x + tanh(x * w * g)
                penalty = penalty + sum(w * w)
            }
            penalty = penalty + sum(g * g)
        }
    }
    head : param[hidden, vocab] ~ normal(0.5)
    loss = cross_entropy(x @ head over hidden, next(tokens)) + 0.01 * penalty
}

train {
    optimizer adamw
    lr        1e-2
}
