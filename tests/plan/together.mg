# together.mg - what goes through the stages of a pipeline together: a network, one that follows it, and one for the other direction;
# two losses; a table that both ends read, and followers on the rank where they are read and not on that of what they follow, or read nowhere.
dim layers = 4, hidden = 8, wide = 8, vocab = 256, seq = 8, batch = 8

block network(x[hidden]) {
    size = 0
    repeat layers as "layers.{}" {
        w    : param[hidden, wide] ~ normal(0.3) as "weight" [wide, hidden]
        bias : param[wide]         = 0.1 as "bias"
        y = tanh(x @ w over hidden)
        size = size + mean(y * y * bias)
        x = x + y[wide -> hidden]
    }
    return x, size
}

block table(index[seq] : token(vocab)) {
    rows : param[vocab, hidden] ~ normal(0.5) as "weight"
    return rows[index]
}

model together(tokens[batch, seq] : token(vocab)) {
    embed  : block table as "embed"
    slow   : block table as "slow" follows embed by 0.9
    late   : block table as "late" follows slow every 2
    apart  : block table as "apart" follows slow by 0.5
    online : block network as "online"
    target : block network as "target" follows online by 1 - 0.1 / (1 + step())
    x, sizes = online(embed(tokens))
    y, _ = target(slow(tokens))
    z, more = online(-embed(tokens))
    _kept = apart(tokens)
    off = x - y - late(next(tokens)) + embed(next(tokens))
    unembed : param[vocab, hidden] ~ normal(0.3) as "unembed.weight"
    loss = cross_entropy((x - z) @ unembed over hidden, next(tokens)) + mean(off * off)
    size_loss = sizes + 0.5 * more
}

train {
    optimizer adamw(decay = 0.01)
    lr        0.01
    clip      0.5
    average   0.8
    precision f64
}

train size_loss where "*.bias" {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    clip      0.01
}

layout {
    device     cpu
    microbatch 2
}
