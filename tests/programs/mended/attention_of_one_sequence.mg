# Attention of one sequence, as where a text is continued, with the batch between dims that step unevenly: it steps nowhere
# itself, and does not make the others even.
dim vocab = 5, batch = 4, seq = 2, row = 4, group = 2, ffn = 4, wide = 3

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[group, row, vocab] ~ normal(0.3)
    a     : param[ffn, wide]         = 1
    b     : param[ffn, wide]         = 0.5
    c     : param[wide, ffn]         = 0.5
    g     : param[group]             = 0.1
    x = g + embed[tokens]
    y = attention(x + a, x * b, x + c, along seq, over row)
    head : param[row, vocab, group] ~ normal(0.3)
    loss = cross_entropy(sum(y, over (wide, ffn)) @ head over (row, group), next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}
