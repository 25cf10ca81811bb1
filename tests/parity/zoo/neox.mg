# neox.mg - GPT-NeoX (Black and others, 2022): the first half of each head turns with its position, the second does not; attention
# and MLP side by side, with a norm each. A checkpoint has query, key and value of each head behind each other.
dim layers = 2, hidden = 16, heads = 2, part = 2, half = 4, qkv = 3, ffn = 16
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = 1e-5)
}

block turned(x[part, half]) {
    return select(index(part) == 0, rope(x, along seq, over half), x)
}

block attend(x[hidden]) {
    dim key = seq
    w  : param[hidden, heads, qkv, part, half] ~ normal(0.3) as "qkv.weight" [(heads qkv part half), hidden]
    b  : param[heads, qkv, part, half]         = 0 as "qkv.bias" [(heads qkv part half)]
    wo : param[heads, part, half, hidden]      ~ normal(0.3) as "o.weight" [hidden, (heads part half)]
    bo : param[hidden]                         = 0 as "o.bias"
    y = x @ w over hidden + b
    q = turned(y[qkv = 0])
    k = turned(y[qkv = 1])
    v = y[qkv = 2]
    s = q @ k[seq -> key] over (part, half) / sqrt(part * half)
    p = softmax(select(index(key) <= index(seq), s, -1e30), over key)
    return p @ v[seq -> key] over key @ wo over (heads, part, half) + bo
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return gelu(x @ up over hidden) @ down over ffn
}

model neox(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1") as "attn" + mlp(norm(x) as "ln2") as "mlp"
    }
    unembed : param[vocab, hidden] ~ normal(0.3) as "unembed.weight"
    loss = cross_entropy((norm(x) as "norm") @ unembed over hidden, next(tokens))
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
