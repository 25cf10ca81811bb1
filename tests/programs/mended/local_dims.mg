# Parameters with dims of their block and of their model's body: the same dims when it is evaluated and continued.
dim vocab = 4, batch = 2, seq = 4, hidden = 3

block widen(x[hidden]) {
    dim inner = 2 * hidden
    up   : param[hidden, inner] ~ normal(0.3)
    down : param[inner, hidden] ~ normal(0.3)
    return tanh(x @ up over hidden) @ down over inner
}

model m(tokens[batch, seq] : token(vocab)) {
    dim wide = 3 * hidden
    embed : param[vocab, wide]  ~ normal(0.3)
    first : param[wide, hidden] ~ normal(0.3)
    x = embed[tokens] @ first over wide
    x = x + widen(x) as "one"
    x = x + widen(x) as "two"
    head : param[hidden, vocab] ~ normal(0.3)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}
