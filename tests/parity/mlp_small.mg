# mlp_small.mg - models/mlp.mg, small: the model Mlp of generate.py, tensor by tensor.
dim seq = 8, embed = 12, hidden = 40
dim vocab = 256, batch = 16

model mlp(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, embed]       ~ normal(0.02) as "embed.weight"
    w1    : param[seq, embed, hidden] ~ normal(1 / sqrt(seq * embed)) as "fc1.weight" [hidden, (seq embed)]
    b1    : param[hidden]             = 0 as "fc1.bias"
    w2    : param[hidden, vocab]      ~ normal(0.02) as "fc2.weight" [vocab, hidden]
    b2    : param[vocab]              = 0 as "fc2.bias"
    h = tanh(table[tokens] @ w1 over (seq, embed) + b1)
    loss = cross_entropy(h @ w2 over hidden + b2, last(next(tokens), along seq))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 3e-3, warmup = 5, steps = 20, floor = 3e-4)
    clip      1.0
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 16
    recompute  auto
}
