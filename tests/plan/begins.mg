# begins.mg - what a repeat begins with is needed again behind it, for the gradient of what made it, when the stack of what the repeat
# carried has been written over.
dim rounds = 3, hidden = 6
dim vocab = 7, seq = 3, batch = 4

model begins(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    x = embed[tokens]
    y = softmax(embed, over vocab)
    repeat rounds as "{}" {
        v : param[vocab, hidden] ~ normal(0.5)
        w : param[seq, hidden]   ~ normal(0.5)
        x = sin(tanh(y @ v over (vocab, hidden)) * w + x)
        y = y + y
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    device     cpu
    microbatch 2
}
