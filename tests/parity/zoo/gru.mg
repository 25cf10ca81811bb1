# gru.mg - a gated recurrent unit, as torch.nn.GRU: a scan over positions carries the state.
dim hidden = 16, prev = hidden, narrow = 8, gate = 3
dim vocab = 32, seq = 8, batch = 4

model gru(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, narrow]        ~ normal(0.3) as "embed.weight"
    wi    : param[gate, narrow, hidden] ~ normal(0.3) as "rnn.weight_ih" [(gate hidden), narrow]
    wh    : param[gate, prev, hidden]   ~ normal(0.3) as "rnn.weight_hh" [(gate hidden), prev]
    bi    : param[gate, hidden]         = 0 as "rnn.bias_ih" [(gate hidden)]
    bh    : param[gate, hidden]         = 0 as "rnn.bias_hh" [(gate hidden)]
    head  : param[vocab, hidden]        ~ normal(0.3) as "head.weight"
    x = table[tokens]
    h = expand(0, over (batch, hidden))
    scan seq {
        i = x @ wi over narrow + bi
        g = h[hidden -> prev] @ wh over prev + bh
        r = sigmoid(i[gate = 0] + g[gate = 0])
        z = sigmoid(i[gate = 1] + g[gate = 1])
        n = tanh(i[gate = 2] + r * g[gate = 2])
        h = (1 - z) * n + z * h
        out = h
    }
    loss = cross_entropy(out @ head over hidden, next(tokens))
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
