# translation.mg - two streams of tokens with vocabularies of their own (Vaswani and others, 2017): token 0 fills up both. A row of
# `target` begins with a token that begins, and has one more than the decoder reads.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 16
dim vocab = 24, words = 20, source = 6, seq = 5, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block attend(x[hidden], memory[hidden], fill, along pos, along to_) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    hidden_keys = select(fill == 0, -1e30, 0)
    y = attention(x @ wq over hidden, memory @ wk over hidden, memory @ wv over hidden, along pos, along to_, over head, bias = hidden_keys)
    return y @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return relu(x @ up over hidden) @ down over ffn
}

block itself(x[hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    return attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head, causal) @ wo over (heads, head)
}

dim key = source

model translation(text[batch, source] : token(vocab), target[batch, seq] : token(words)) {
    from : param[vocab, hidden] ~ normal(0.3) as "from.weight"
    into : param[words, hidden] ~ normal(0.3) as "into.weight"
    m = from[text] + cos(index(source))
    repeat layers as "encoder.{}" {
        n = norm(m) as "ln1"
        m = m + attend(n, n[source -> key], text[source -> key], along source, along key) as "attn"
        m = m + mlp(norm(m) as "ln2") as "mlp"
    }
    x = into[target] + cos(index(seq))
    repeat layers as "decoder.{}" {
        x = x + itself(norm(x) as "ln1") as "attn"
        x = x + attend(norm(x) as "ln2", m, text, along seq, along source) as "cross"
        x = x + mlp(norm(x) as "ln3") as "mlp"
    }
    answer = next(target)
    loss = cross_entropy((norm(x) as "norm") @ into over hidden, answer, select(answer == 0, 0, 1))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 2
}
