# The weights' sum is known on all stages, and a rank with two stages added it to the total once in each: the next call's loss was
# divided by too much.
dim vocab = batch / 8, seq = batch - 3, layers = 2
dim col = 2, batch = 8
const c1 = (2)
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    embed34 : param[vocab, col] ~ normal(0.3) as "embed34.weight"
    x = embed34[tokens]
    repeat layers {
        w41 : param[seq, col] = c1
        x = x + 0.3 }
    w42 : param[vocab] = c1
    loss = cross_entropy(max(x, col) * w42, next(tokens), weight)
}
train {
    optimizer adamw
    lr 1e-2
}
layout {
    mesh pp = 2
    layers -> pp (schedule = interleaved, chunks = 2)
    microbatch 1
}
