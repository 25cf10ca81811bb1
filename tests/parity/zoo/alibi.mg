# alibi.mg - scores fall with distance, by a slope of each head's own (Press, Smith, Lewis: ALiBi, 2022): no other positions.
dim layers = 2, hidden = 16, heads = 4, head = 4, ffn = 16
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block attend(x[hidden]) {
    dim key = seq
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    s = (x @ wq over hidden) @ (x @ wk over hidden)[seq -> key] over head / sqrt(head)
    slope = exp(-log(2) * 8 / heads * (index(heads) + 1))
    s = select(index(key) <= index(seq), s - slope * (index(seq) - index(key)), -1e30)
    return softmax(s, over key) @ (x @ wv over hidden)[seq -> key] over key @ wo over (heads, head)
}

block mlp(x[hidden]) {
    w1 : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    b1 : param[ffn]         = 0 as "up.bias"
    w2 : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    b2 : param[hidden]      = 0 as "down.bias"
    return gelu(x @ w1 over hidden + b1) @ w2 over ffn + b2
}

model alibi(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1") as "attn"
        x = x + mlp(norm(x) as "ln2") as "mlp"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
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
