# offload.mg - a network that names the byte behind a window. Nearly all of its memory is parameters, gradients and Adam's two moments.
dim seq = 32, embed = 32, hidden = 512, wide = hidden, layers = 4
dim vocab = 256, batch = 64

model offload(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, embed]       ~ normal(0.1) as "embed.weight"
    first : param[seq, embed, hidden] ~ normal(0.03) as "first.weight" [hidden, (seq embed)]
    x = tanh(table[tokens] @ first over (seq, embed))
    repeat layers as "layers.{}" {
        w : param[hidden, wide] ~ normal(0.04) as "weight" [wide, hidden]
        x = x + tanh(x @ w over hidden)[wide -> hidden]
    }
    head : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    loss = cross_entropy(x @ head over hidden, last(next(tokens), along seq))
}

train {
    optimizer adamw(decay = 0.01)
    lr        cosine(peak = 1e-3, warmup = 5, steps = 30)
}
