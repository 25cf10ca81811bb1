# encoder_decoder.mg - an encoder that sees the whole source and a decoder that looks at it too (Vaswani and others, 2017): pads of the
# source are hidden by an input, and weights say which targets count.
dim layers = 2, depth = 1, hidden = 16, heads = 2, head = 8, ffn = 16
dim vocab = 32, source = 8, seq = 4, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block encoder_attention(x[hidden], pad[source]) {
    dim key = source
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    s = (x @ wq over hidden) @ (x @ wk over hidden)[source -> key] over head / sqrt(head)
    p = softmax(select(pad[source -> key] > 0, -1e30, s), over key)
    return p @ (x @ wv over hidden)[source -> key] over key @ wo over (heads, head)
}

block decoder_attention(x[hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    return attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head, causal) @ wo over (heads, head)
}

block across(x[hidden], memory[source, hidden], pad[source]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    s = (x @ wq over hidden) @ (memory @ wk over hidden) over head / sqrt(head)
    p = softmax(select(pad > 0, -1e30, s), over source)
    return p @ (memory @ wv over hidden) over source @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return relu(x @ up over hidden) @ down over ffn
}

model translate(src[batch, source] : token(vocab), pad[batch, source], tgt[batch, seq] : token(vocab), label[batch, seq] : token(vocab), weight[batch, seq]) {
    embed : param[vocab, hidden]  ~ normal(0.3) as "embed.weight"
    there : param[source, hidden] ~ normal(0.3) as "pos.source.weight"
    here  : param[seq, hidden]    ~ normal(0.3) as "pos.target.weight"
    m = embed[src] + there
    repeat layers as "encoder.{}" {
        m = m + encoder_attention(norm(m) as "ln1", pad) as "attn"
        m = m + mlp(norm(m) as "ln2") as "mlp"
    }
    m = norm(m) as "encoder.norm"
    x = embed[tgt] + here
    repeat depth as "decoder.{}" {
        x = x + decoder_attention(norm(x) as "ln1") as "attn"
        x = x + across(norm(x) as "ln2", m, pad) as "cross"
        x = x + mlp(norm(x) as "ln3") as "mlp"
    }
    loss = cross_entropy((norm(x) as "decoder.norm") @ embed over hidden, label, weight)
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
