# encoder_decoder.mg - an encoder that sees the whole source and a decoder that looks at it too (Vaswani and others, 2017): pads of the
# source are hidden by an input, and weights say which targets count.
dim layers = 2, depth = 1, hidden = 16, heads = 2, head = 8, ffn = 16
dim vocab = 32, source = 8, key = source, seq = 4, other = seq, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.3) as "weight" [(into), (from)]
    return x @ w over from
}

block attend(x[hidden], memory[hidden], along pos, along to_, pad[] = 0, past) {
    q = dense(x, over hidden, over (heads, head)) as "q"
    k = dense(memory, over hidden, over (heads, head)) as "k"
    v = dense(memory, over hidden, over (heads, head)) as "v"
    y = attention(q, k, v, along pos, along to_, over head, bias = select(pad > 0, -1e30, 0), causal = past)
    return dense(y, over (heads, head), over hidden) as "o"
}

block mlp(x[hidden]) {
    return dense(relu(dense(x, over hidden, over ffn) as "up"), over ffn, over hidden) as "down"
}

model translate(src[batch, source] : token(vocab), pad[batch, source], tgt[batch, seq] : token(vocab), label[batch, seq] : token(vocab), weight[batch, seq]) {
    embed : param[vocab, hidden]  ~ normal(0.3) as "embed.weight"
    there : param[source, hidden] ~ normal(0.3) as "pos.source.weight"
    here  : param[seq, hidden]    ~ normal(0.3) as "pos.target.weight"
    m = embed[src] + there
    repeat layers as "encoder.{}" {
        n = norm(m) as "ln1"
        m = m + attend(n, n[source -> key], along source, along key, pad = pad[source -> key]) as "attn"
        m = m + mlp(norm(m) as "ln2") as "mlp"
    }
    m = norm(m) as "encoder.norm"
    x = embed[tgt] + here
    repeat depth as "decoder.{}" {
        n = norm(x) as "ln1"
        x = x + attend(n, n[seq -> other], along seq, along other, past) as "attn"
        x = x + attend(norm(x) as "ln2", m, along seq, along source, pad = pad) as "cross"
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
