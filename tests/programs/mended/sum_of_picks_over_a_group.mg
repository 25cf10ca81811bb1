# The gradient of a picked part that was summed over query groups lacks their dim: the sum of the parts was made a join all the same.
dim hidden = 8, qkv = 3, kv_heads = 2, group = 2, head = 4
dim vocab = 256, seq = 16, batch = 4
model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1)
    w : param[hidden, qkv, kv_heads, group, head] ~ normal(0.1)
    wo : param[kv_heads, group, head, hidden] ~ normal(0.1)
    x = embed[tokens]
    y = x @ w over hidden
    k = sum(y[qkv = 1], over group)
    v = sum(y[qkv = 2], over group)
    z = attention(y[qkv = 0], k, v, along seq, over head, causal) @ wo over (kv_heads, group, head)
    loss = cross_entropy(z @ embed over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
