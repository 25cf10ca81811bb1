# axial.mg - attention over operands whose other dims do not step evenly: along one of two dims of a grid, q, k and v being
# parts of one product; and of queries with two dims that keys lack, the batch between them.
dim row = 3, hidden = 8, heads = 2, head = 4, qkv = 3, near = 2, far = 3
dim vocab = 16, seq = 4, batch = 4

block axial(x[row, hidden]) {
    w  : param[hidden, qkv, heads, head] ~ normal(0.4)
    wo : param[heads, head, hidden]      ~ normal(0.4)
    y = x @ w over hidden
    q = pick(y, along qkv, at = 0)
    k = pick(y, along qkv, at = 1)
    v = pick(y, along qkv, at = 2)
    return attention(q, k, v, along seq, over head, causal) @ wo over (heads, head)
}

model grid(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, row, hidden] ~ normal(0.5)
    a     : param[near]               ~ normal(0.5)
    b     : param[far]                ~ normal(0.5)
    x = embed[tokens]
    x = x + axial(x)
    q = b * (x * a)
    x = x + mean(attention(q, x, x, along row, over hidden), over (near, far))
    unembed : param[vocab, row, hidden] ~ normal(0.5)
    loss = cross_entropy(x @ unembed over (row, hidden), next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    device     cpu
    microbatch 2
}
