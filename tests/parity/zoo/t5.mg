# t5.mg - an encoder and a decoder whose scores have a learned bias by distance, in buckets that grow with it, shared by all layers
# (Raffel and others: T5, 2020). Scores are not scaled; the decoder's look at the encoder has no bias.
dim layers = 2, depth = 2, hidden = 16, heads = 2, head = 8, ffn = 16
dim vocab = 32, source = 8, seq = 6, batch = 4, bucket = 8, reach = 9
dim key = source, other = seq, span = 2 * source - 1, back = 2 * seq - 1

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

# 1 for the bucket of a distance, else 0: of `count` buckets half are of one distance each.
block bucketed(n, along b, count =, after = 0) {
    exact = count / 2
    far = min(count - 1, exact + log(max(n, 1) / exact) / log(reach / exact) * (count - exact))
    place = select(n < exact, n, far)
    here = index(b) - after
    return select(here <= place, select(place - here < 1, 1, 0), 0)
}

block attend(x[hidden], bias) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    q = x @ wq over hidden
    k = (x @ wk over hidden)[source -> key]
    v = (x @ wv over hidden)[source -> key]
    return attention(q, k, v, along source, along key, over head, scale = 1, bias = bias) @ wo over (heads, head)
}

block attend_before(x[hidden], bias) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    s = (x @ wq over hidden) @ (x @ wk over hidden)[seq -> other] over head + bias
    p = softmax(select(index(other) <= index(seq), s, -1e30), over other)
    return p @ (x @ wv over hidden)[seq -> other] over other @ wo over (heads, head)
}

block across(x[hidden], memory[source, hidden]) {
    wq : param[hidden, heads, head] ~ normal(0.3) as "q.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(0.3) as "k.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(0.3) as "v.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    k = memory @ wk over hidden
    v = memory @ wv over hidden
    return attention(x @ wq over hidden, k, v, along seq, along source, over head, scale = 1) @ wo over (heads, head)
}

block mlp(x[hidden]) {
    up   : param[hidden, ffn] ~ normal(0.3) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.3) as "down.weight" [hidden, ffn]
    return relu(x @ up over hidden) @ down over ffn
}

model t5(src[batch, source] : token(vocab), tgt[batch, seq] : token(vocab), label[batch, seq] : token(vocab)) {
    embed  : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    both   : param[bucket, heads] ~ normal(0.3) as "encoder.relative.weight"
    before : param[bucket, heads] ~ normal(0.3) as "decoder.relative.weight"
    ahead = index(span) - (source - 1)
    there = bucketed(abs(ahead), along bucket, count = bucket / 2, after = 0) * select(ahead > 0, 0, 1)
    there = there + bucketed(abs(ahead), along bucket, count = bucket / 2, after = bucket / 2) * select(ahead > 0, 1, 0)
    near = (both @ there over bucket)[span = key - source + (2 * 4 - 1)]
    behind = max(index(back) - (seq - 1), 0)
    past = (before @ bucketed(behind, along bucket, count = bucket) over bucket)[back = seq - other + 5]
    m = embed[src]
    repeat layers as "encoder.{}" {
        m = m + attend(norm(m) as "ln1", near) as "attn"
        m = m + mlp(norm(m) as "ln2") as "mlp"
    }
    m = norm(m) as "encoder.norm"
    x = embed[tgt]
    repeat depth as "decoder.{}" {
        x = x + attend_before(norm(x) as "ln1", past) as "attn"
        x = x + across(norm(x) as "ln2", m) as "cross"
        x = x + mlp(norm(x) as "ln3") as "mlp"
    }
    loss = cross_entropy((norm(x) as "decoder.norm") @ embed over hidden, label)
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
