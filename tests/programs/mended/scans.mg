# Scans in each other, with indices, conditions, numbers and values from outside among what they give, and a sum that a scan carries.
dim batch = 2, seq = 4, vocab = 8, hidden = 4, wide = 3, best = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.3)
    pos   : param[seq, wide, hidden] ~ normal(0.3)
    w     : param[hidden] ~ normal(0.3)
    x = table[tokens]
    h = expand(0, over (batch, hidden))
    total = 0
    scan seq {
        g = expand(1, over hidden)
        scan wide {
            g = g * tanh(pos) + w
            gs = g
        }
        near = top(h + g, hidden -> best)
        big = h > 0.1
        h = 0.5 * h + x * g + sum(gs, over wide)
        total = total + mean(h * h)
        y = h
        c = 3
        same = w
    }
    z = select(big, y, 0) + sum(select(index(hidden) == near, 1, 0), over best) + c * same
    loss = cross_entropy(z @ table over hidden, next(tokens)) + 0.1 * total
}
train { optimizer adamw() lr 1e-2 precision f64 }
layout { microbatch 1 }
