# dit.mg - a diffusion transformer (Peebles, Xie, 2023): the time and the class of an image shift and scale what each layer sees and gate
# what it adds, by nothing at first (adaLN-Zero). It draws times and noise, in the cosine schedule, and leaves out a tenth of the classes,
# so that samples can be guided; it predicts the noise. Small as it is here. The published sizes, for latents of 32 x 32 x 4, all with
# -D row=32 -D classes=1000 -D rate=128:
#   S/2: -D layers=12 -D hidden=384 -D heads=6 -D head=64      B/2: -D layers=12 -D hidden=768 -D heads=12 -D head=64
#   L/2: -D layers=24 -D hidden=1024 -D heads=16 -D head=64    XL/2: -D layers=28 -D hidden=1152 -D heads=16 -D head=72
dim layers = 4, hidden = 128, heads = 4, head = 32, ffn = 4 * hidden, rate = 32, quarter = hidden / 4
dim colour = 4, row = 16, col = row, patch = 2, down = patch, across = patch, high = row / patch, wide = col / patch
dim seq = high * wide, classes = 10, kinds = classes + 1, batch = 32, pair = 2, axis = 2, two = 2, three = 3, six = 6
const right = 1.5707963267948966

block dense(x, over from, over into, std = -1) {
    w : param[from, into] ~ normal(select(std < 0, sqrt(2 / (from + into)), std)) as "weight" [(into), (from)]
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

block patches(x[colour, row, col]) {
    w : param[colour, down, across, hidden] ~ normal(sqrt(2 / (hidden + colour * patch * patch))) as "weight" [hidden, colour, down, across]
    b : param[hidden]                       = 0 as "bias"
    return x[row -> (high, down)][col -> (wide, across)] @ w over (colour, down, across) + b
}

block layer(x[hidden], c[hidden]) {
    dim out = hidden
    m = (dense(c, over hidden, over (six, out), std = 0) as "adaLN_modulation.1")[out -> hidden]
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
    noisy = cos(right * time) * image + sin(right * time) * noise
    table : param[kinds, hidden] ~ normal(0.02) as "y_embedder.embedding_table.weight"
    place = waves(select(index(axis) == 0, index(wide), index(high)), along quarter)[(axis, pair, quarter) -> hidden]
    x = (patches(noisy) as "x_embedder.proj" + place)[(high, wide) -> seq]
    c = silu(dense(waves(1000 * time, along rate, first = 1), over (pair, rate), over out, std = 0.02) as "t_embedder.mlp.0")
    c = dense(c, over out, over hidden, std = 0.02) as "t_embedder.mlp.2"
    c = silu(c + table[select(uniform(over batch) < 0.1, classes, label)])
    repeat layers as "blocks.{}" {
        x = layer(x, c)
    }
    m = (dense(c, over hidden, over (two, out), std = 0) as "final_layer.adaLN_modulation.1")[out -> hidden]
    d = dense(modulated(x, m[two = 0], m[two = 1]), over hidden, over (down, across, colour), std = 0) as "final_layer.linear"
    missed = d[seq -> (high, wide)] - noise[row -> (high, down)][col -> (wide, across)]
    loss = mean(missed * missed)
}

train {
    optimizer adamw(betas = (0.9, 0.999), eps = 1e-8)
    lr        constant(peak = 3e-4, steps = 2000)
}

layout {  # the default: one rank
    device cpu
    mesh   dp = 1, tp = 1
    batch      -> dp
    heads, ffn -> tp
    microbatch 8
}
