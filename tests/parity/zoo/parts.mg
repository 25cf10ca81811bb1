# parts.mg - parts of tensors in every form: causal convolutions with strides and dilation, a projection that is cut into queries, keys
# and values, rotary positions for a part of a head, positions in chunks, the position before, and a branch without a gradient.
dim layers = 2, hidden = 16, heads = 2, head = 6, rot = 4, straight = head - rot
dim keyed = heads * head, fused = 3 * keyed, tap = 3, two = 2, coarse = seq / two, chunk = 2, place = coarse / chunk
dim vocab = 32, seq = 8, batch = 4
const every = 2

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block turned(x[head]) {
    return join(rope(x[head = 0 .. rot], along seq, over rot), x[head = rot .. head -> straight], (rot, straight) -> head)
}

block attend(x[hidden]) {
    w  : param[hidden, fused]       ~ normal(0.3) as "qkv.weight" [fused, hidden]
    wo : param[heads, head, hidden] ~ normal(0.3) as "o.weight" [hidden, (heads head)]
    all = x @ w over hidden
    q = turned(all[fused = 0 .. keyed][keyed -> (heads, head)])
    k = turned(all[fused = keyed .. 2 * keyed -> keyed][keyed -> (heads, head)])
    v = all[fused = 2 * keyed .. fused -> keyed][keyed -> (heads, head)]
    return attention(q, k, v, along seq, over head, causal) @ wo over (heads, head)
}

# What has been, in steps of two positions: a convolution of every second position, given to both of its pair.
block past(x[hidden]) {
    dim from = hidden
    w   : param[tap, from, hidden] ~ normal(0.3) as "conv.weight" [hidden, from, tap]
    far : param[tap, hidden]       ~ normal(0.3) as "far.weight" [hidden, tap]
    y = x[seq = every * coarse - tap][hidden -> from] @ w over (tap, from)
    z = sum(x[seq = seq - 2 * tap - 1] * far, over tap)
    c = y[coarse -> (chunk, place)] * exp(-0.5 * index(place))
    return silu(c[(chunk, place) -> coarse] + 0 * index(two))[(coarse, two) -> seq] + z
}

model parts(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        h = norm(x) as "ln"
        x = x + attend(h) as "attn" + past(h) as "past" + 0.5 * h[seq - 1] * stop(h)
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
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
