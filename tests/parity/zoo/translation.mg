# translation.mg - two streams of tokens with vocabularies of their own (Vaswani and others, 2017): token 0 fills up both. A row of
# `target` begins with a token that begins, and has one more than the decoder reads.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 16
dim vocab = 24, words = 20, source = 6, seq = 5, batch = 4, key = source, other = seq

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.3) as "weight" [(into), (from)]
    return x @ w over from
}

block attend(x[hidden], memory[hidden], along pos, along to_, empty[] = 0, past) {
    q = dense(x, over hidden, over (heads, head)) as "q"
    k = dense(memory, over hidden, over (heads, head)) as "k"
    v = dense(memory, over hidden, over (heads, head)) as "v"
    y = attention(q, k, v, along pos, along to_, over head, bias = select(empty, -1e30, 0), causal = past)
    return dense(y, over (heads, head), over hidden) as "o"
}

block mlp(x[hidden]) {
    return dense(relu(dense(x, over hidden, over ffn) as "up"), over ffn, over hidden) as "down"
}

model translation(text[batch, source] : token(vocab), target[batch, seq] : token(words)) {
    from : param[vocab, hidden] ~ normal(0.3) as "from.weight"
    into : param[words, hidden] ~ normal(0.3) as "into.weight"
    m = from[text] + cos(index(source))
    repeat layers as "encoder.{}" {
        n = norm(m) as "ln1"
        m = m + attend(n, n[source -> key], along source, along key, empty = (text == 0)[source -> key]) as "attn"
        m = m + mlp(norm(m) as "ln2") as "mlp"
    }
    x = into[target] + cos(index(seq))
    repeat layers as "decoder.{}" {
        n = norm(x) as "ln1"
        x = x + attend(n, n[seq -> other], along seq, along other, past) as "attn"
        x = x + attend(norm(x) as "ln2", m, along seq, along source, empty = text == 0) as "cross"
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
