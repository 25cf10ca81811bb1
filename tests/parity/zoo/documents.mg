# documents.mg - several documents in a sequence, each by itself: attention sees what is before it in its own document, positions begin
# anew, and a token that begins one is nobody's target.
dim layers = 2, hidden = 16, kv_heads = 2, group = 2, head = 4, ffn = 16
dim vocab = 32, seq = 8, batch = 4, spots = seq

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block attend(x[hidden], doc[seq]) {
    dim key = seq
    wq : param[hidden, kv_heads, group, head] ~ normal(0.3) as "q.weight" [(kv_heads group head), hidden]
    wk : param[hidden, kv_heads, head]        ~ normal(0.3) as "k.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head]        ~ normal(0.3) as "v.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (kv_heads group head)]
    s = (x @ wq over hidden) @ (x @ wk over hidden)[seq -> key] over head / sqrt(head)
    same = select(doc == doc[seq -> key], select(index(key) <= index(seq), s, -1e30), -1e30)
    return softmax(same, over key) @ (x @ wv over hidden)[seq -> key] over key @ wo over (kv_heads, group, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return gelu_tanh(x @ up over hidden) @ down over ffn
}

model documents(ids[batch, seq] : token(vocab), target[batch, seq] : token(vocab), doc[batch, seq], spot[batch, seq] : token(spots), weight[batch, seq]) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    place : param[spots, hidden] ~ normal(0.3) as "pos.weight"
    x = embed[ids] + place[spot]
    repeat layers as "{}" {
        x = x + attend(norm(x) as "ln1", doc) as "attn"
        x = x + mlp(norm(x) as "ln2") as "mlp"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, target, weight)
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
