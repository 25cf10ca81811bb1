# gru.mg - a gated recurrent unit, as torch.nn.GRU: a repeat over positions carries the state, and a clock that selects what is read
# and written.
dim hidden = 16, prev = hidden, narrow = 8, gate = 3, steps = seq
dim vocab = 32, seq = 8, batch = 4

model gru(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, narrow]        ~ normal(0.3) as "embed.weight"
    wi    : param[gate, narrow, hidden] ~ normal(0.3) as "rnn.weight_ih" [(gate hidden), narrow]
    wh    : param[gate, prev, hidden]   ~ normal(0.3) as "rnn.weight_hh" [(gate hidden), prev]
    bi    : param[gate, hidden]         = 0 as "rnn.bias_ih" [(gate hidden)]
    bh    : param[gate, hidden]         = 0 as "rnn.bias_hh" [(gate hidden)]
    head  : param[vocab, hidden]        ~ normal(0.3) as "head.weight"
    x = table[tokens] @ wi over narrow + bi
    out = 0 * pick(x, along gate, at = 0)
    h = sum(out, over seq)
    t = 0
    repeat steps {
        now = index(seq) == t
        i = sum(select(now, x, 0), over seq)
        g = h[hidden -> prev] @ wh over prev + bh
        r = sigmoid(pick(i, along gate, at = 0) + pick(g, along gate, at = 0))
        z = sigmoid(pick(i, along gate, at = 1) + pick(g, along gate, at = 1))
        n = tanh(pick(i, along gate, at = 2) + r * pick(g, along gate, at = 2))
        h = (1 - z) * n + z * h
        out = select(now, h, out)
        t = t + 1
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
