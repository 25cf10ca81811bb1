# dit.mg - a diffusion transformer (Peebles, Xie, 2023): the time and the class of an image shift and scale what each layer sees, and
# gate what it adds. It draws times and noise, and leaves out the class of some rows.
dim layers = 2, hidden = 16, heads = 2, head = 8, ffn = 32, rate = 4, quarter = hidden / 4, pair = 2, axis = 2
dim colour = 2, row = 4, col = row, patch = 2, down = patch, across = patch, high = row / patch, wide = col / patch
dim seq = high * wide, classes = 4, kinds = classes + 1, batch = 8, three = 3, six = 6, two = 2

block dense(x, over from, over into) {
    w : param[from, into] ~ normal(0.3) as "weight" [(into), (from)]
    b : param[into]       = 0 as "bias" [(into)]
    return x @ w over from + b
}

block modulated(x[hidden], shift[hidden], scale[hidden]) {
    return layernorm(x, 1, 0, over hidden, eps = 1e-6) * (1 + scale) + shift
}

block waves(t, along beat, first = 0) {
    angle = t * exp(index(beat) * (-log(10000) / beat))
    return select(index(pair) == first, sin(angle), cos(angle))
}

block layer(x[hidden], c[hidden]) {
    dim out = hidden
    m = (dense(c, over hidden, over (six, out)) as "adaLN_modulation.1")[out -> hidden]
    p = dense(modulated(x, m[six = 0], m[six = 1]), over hidden, over (three, heads, head)) as "attn.qkv"
    y = attention(p[three = 0], p[three = 1], p[three = 2], along seq, over head)
    x = x + m[six = 2] * dense(y, over (heads, head), over hidden) as "attn.proj"
    h = gelu_tanh(dense(modulated(x, m[six = 3], m[six = 4]), over hidden, over ffn) as "mlp.fc1")
    return x + m[six = 5] * dense(h, over ffn, over hidden) as "mlp.fc2"
}

model dit(image[batch, colour, row, col], label[batch] : token(kinds)) {
    dim out = hidden
    time = uniform(over batch)
    noise = normal(over (batch, colour, row, col))
    noisy = cos(1.5707963267948966 * time) * image + sin(1.5707963267948966 * time) * noise
    table : param[kinds, hidden] ~ normal(0.3) as "y_embedder.embedding_table.weight"
    place = waves(select(index(axis) == 0, index(wide), index(high)), along quarter)[(axis, pair, quarter) -> hidden]
    x = dense(noisy[row -> (high, down)][col -> (wide, across)], over (colour, down, across), over hidden) as "x_embedder.proj"
    x = (x + place)[(high, wide) -> seq]
    c = silu(dense(waves(1000 * time, along rate, first = 1), over (pair, rate), over out) as "t_embedder.mlp.0")
    c = dense(c, over out, over hidden) as "t_embedder.mlp.2"
    c = silu(c + table[select(uniform(over batch) < 0.25, classes, label)])
    repeat layers as "blocks.{}" {
        x = layer(x, c)
    }
    m = (dense(c, over hidden, over (two, out)) as "final_layer.adaLN_modulation.1")[out -> hidden]
    d = dense(modulated(x, m[two = 0], m[two = 1]), over hidden, over (down, across, colour)) as "final_layer.linear"
    missed = d[seq -> (high, wide)] - noise[row -> (high, down)][col -> (wide, across)]
    loss = mean(missed * missed)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}
