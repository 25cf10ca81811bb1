# mlp.mg - the neural language model of Bengio et al. (2003) on bytes: the last 16 bytes, embedded
# and laid side by side, go through one hidden layer and predict the byte that follows them.
# `@ w1 over (seq, embed)` is what other languages write as reshape and matmul.
dim seq = 16, embed = 32, hidden = 256
dim vocab = 256, batch = 256

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
    optimizer adamw(betas = (0.9, 0.99), eps = 1e-8, decay = 0.01 where rank >= 2)
    lr        cosine(peak = 3e-3, warmup = 50, steps = 2000, floor = 3e-4)
    clip      1.0
}

layout {  # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, cp = 1, tp = 1
    batch         -> dp
    hidden, vocab -> tp
    microbatch 256
    recompute  auto
}
