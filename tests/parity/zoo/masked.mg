# masked.mg - tokens that are hidden at random, and predicted from those on both sides (BERT, Devlin and others, 2019): of those that are
# chosen most become a mask, some another token, and some stay.
dim layers = 2, hidden = 16, heads = 2, head = 8
dim vocab = 32, seq = 8, batch = 4
const mask = 3

block attend(x[hidden]) {
    dim key = seq
    gain : param[hidden]              = 1 as "norm.weight"
    wq   : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk   : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv   : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo   : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    n = rmsnorm(x, gain, over hidden, eps = 1e-6)
    y = attention(n @ wq over hidden, (n @ wk over hidden)[seq -> key], (n @ wv over hidden)[seq -> key], along seq, along key, over head)
    return tanh(y @ wo over (heads, head))
}

model masked(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    place : param[seq, hidden]   ~ normal(0.3) as "place.weight"
    chosen = select(uniform(over (batch, seq)) < 0.4, 1, 0)
    kind = uniform(over (batch, seq))
    seen = select(chosen * kind > 0.25, mask, select(chosen > 0, tokens[seq - 1], tokens))
    x = embed[seen] + place
    repeat layers as "{}" {
        x = x + attend(x)
    }
    loss = cross_entropy(x @ embed over hidden, tokens, chosen)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 2
}
