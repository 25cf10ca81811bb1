# A sum that is read at other places of what it keeps (the gradient of a convolution of one parameter by another): a
# kernel of rows has no other row's.
dim batch = 2, seq = 3, hidden = 6, vocab = 5, col = 3, colour = 2, long = 8

model random(tokens[batch, seq] : token(vocab)) {
    w1 : param[vocab, hidden] ~ normal(0.5) as "w1.weight"
    x = w1[tokens]
    w29 : param[long]   ~ normal(0.4) as "w29.weight"
    w30 : param[col]    ~ normal(0.4) as "w30.weight"
    w31 : param[colour] ~ normal(0.4) as "w31.weight"
    v32 = w29[long = long + 2 * col] @ w30 over col * w31
    w33 : param[hidden, colour, seq, long] ~ normal(0.4) as "w33.weight"
    y = tanh(x + 0.5 * sin(v32) @ w33 over (colour, long))
    w54 : param[hidden, vocab] ~ normal(0.4) as "w54.weight"
    loss = cross_entropy(y @ w54 over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        constant(0.1)
    precision f64
}

layout default {
    device     cpu
    microbatch 2
}
