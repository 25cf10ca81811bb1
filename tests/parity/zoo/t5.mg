# t5.mg - an encoder and a decoder (Raffel and others: T5, 2020) whose scores, which are not scaled, have a learned bias by distance that
# all layers share. Of the buckets of distances half are of one each, the others grow. The decoder's look at the encoder has no bias.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 16, vocab = 32, bucket = 8, reach = 9
dim source = 8, key = source, seq = 6, other = seq, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block relative(n, along b, both_sides) {
    table : param[b, heads] ~ normal(0.3) as "relative.weight"
    count = select(both_sides, b / 2, b)
    size = select(both_sides, abs(n), max(-n, 0))
    grown = count / 2 + log(max(size, 1) / (count / 2)) / log(reach / (count / 2)) * count / 2
    place = select(size < count / 2, size, min(count - 1, grown)) + select(both_sides, select(n > 0, count, 0), 0)
    return table @ select(index(b) <= place, select(place - index(b) < 1, 1, 0), 0) over b
}

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.3) as "weight" [(into), (from)]
    return x @ w over from
}

block attend(x[hidden], memory[hidden], along pos, along to_, bias[] = 0, past) {
    q = dense(x, over hidden, over (heads, head)) as "q"
    k = dense(memory, over hidden, over (heads, head)) as "k"
    v = dense(memory, over hidden, over (heads, head)) as "v"
    return dense(attention(q, k, v, along pos, along to_, over head, scale = 1, bias = bias, causal = past), over (heads, head), over hidden) as "o"
}

model t5(src[batch, source] : token(vocab), tgt[batch, seq] : token(vocab), label[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    near = relative(index(key) - index(source), along bucket, both_sides) as "encoder"
    far = relative(index(other) - index(seq), along bucket) as "decoder"
    m = embed[src]
    repeat layers as "encoder.{}" {
        n = norm(m) as "ln1"
        m = m + attend(n, n[source -> key], along source, along key, bias = near) as "attn"
        m = m + dense(relu(dense(norm(m) as "ln2", over hidden, over ffn) as "mlp.up"), over ffn, over hidden) as "mlp.down"
    }
    m = norm(m) as "encoder.norm"
    x = embed[tgt]
    repeat layers as "decoder.{}" {
        n = norm(x) as "ln1"
        x = x + attend(n, n[seq -> other], along seq, along other, bias = far, past) as "attn"
        x = x + attend(norm(x) as "ln2", m, along seq, along source) as "cross"
        x = x + dense(relu(dense(norm(x) as "ln3", over hidden, over ffn) as "mlp.up"), over ffn, over hidden) as "mlp.down"
    }
    loss = cross_entropy((norm(x) as "decoder.norm") @ embed over hidden, label)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}
