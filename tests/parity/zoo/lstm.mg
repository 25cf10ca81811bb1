# lstm.mg - layers of long short-term memory, as torch.nn.LSTM: scans over positions in a repeat over layers.
dim layers = 2, hidden = 16, prev = hidden, gate = 4
dim vocab = 32, seq = 8, batch = 4

block cells(x[hidden]) {
    wi : param[gate, prev, hidden] ~ normal(0.3) as "weight_ih" [(gate hidden), prev]
    wh : param[gate, prev, hidden] ~ normal(0.3) as "weight_hh" [(gate hidden), prev]
    bi : param[gate, hidden]       = 0 as "bias_ih" [(gate hidden)]
    bh : param[gate, hidden]       = 0 as "bias_hh" [(gate hidden)]
    h = expand(0, over (batch, hidden))
    c = h
    scan seq {
        g = x[hidden -> prev] @ wi over prev + bi + h[hidden -> prev] @ wh over prev + bh
        c = sigmoid(g[gate = 1]) * c + sigmoid(g[gate = 0]) * tanh(g[gate = 2])
        h = sigmoid(g[gate = 3]) * tanh(c)
        out = h
    }
    return out
}

model lstm(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    head  : param[vocab, hidden] ~ normal(0.3) as "head.weight"
    x = table[tokens]
    repeat layers as "rnn.{}" {
        x = cells(x)
    }
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
