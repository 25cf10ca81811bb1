# tagger.mg - a class for each position of a sequence of numbers, from a gated recurrent unit that reads it forward and one that reads
# it backward, as torch.nn.GRU with bidirectional.
dim features = 8, hidden = 16, prev = hidden, gate = 3, way = 2
dim classes = 6, seq = 8, batch = 4

block cell(i[gate, hidden], h[hidden], w[gate, prev, hidden], b[gate, hidden]) {
    g = h[hidden -> prev] @ w over prev + b
    r = sigmoid(i[gate = 0] + g[gate = 0])
    z = sigmoid(i[gate = 1] + g[gate = 1])
    n = tanh(i[gate = 2] + r * g[gate = 2])
    return (1 - z) * n + z * h
}

model tagger(x[batch, seq, features], y[batch, seq] : token(classes)) {
    wi   : param[way, gate, features, hidden] ~ normal(0.3) as "rnn.{}.weight_ih" [(gate hidden), features]
    wh   : param[way, gate, prev, hidden]     ~ normal(0.3) as "rnn.{}.weight_hh" [(gate hidden), prev]
    bi   : param[way, gate, hidden]           = 0 as "rnn.{}.bias_ih" [(gate hidden)]
    bh   : param[way, gate, hidden]           = 0 as "rnn.{}.bias_hh" [(gate hidden)]
    head : param[classes, way, hidden]        ~ normal(0.3) as "head.weight" [classes, (way hidden)]
    i = x @ wi over features + bi
    h = expand(0, over (batch, hidden))
    scan seq {
        h = cell(i[way = 0], h, wh[way = 0], bh[way = 0])
        past = h
    }
    k = expand(0, over (batch, hidden))
    scan seq reverse {
        k = cell(i[way = 1], k, wh[way = 1], bh[way = 1])
        future = k
    }
    logits = past @ head[way = 0] over hidden + future @ head[way = 1] over hidden
    loss = cross_entropy(logits, y)
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
