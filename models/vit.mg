# vit.mg - a vision transformer (Dosovitskiy and others, 2021) that names the class of an image: patches become positions, behind a
# learnt one that the class is read from. Small as it is here, for images of 32 x 32. The published sizes, for 224 x 224:
#   Base:  -D layers=12 -D hidden=768 -D heads=12 -D head=64 -D ffn=3072 -D row=224 -D patch=16 -D classes=1000
#   Large: -D layers=24 -D hidden=1024 -D heads=16 -D head=64 -D ffn=4096 -D row=224 -D patch=16 -D classes=1000
dim layers = 4, hidden = 128, heads = 4, head = 32, ffn = 512
dim row = 32, col = row, colour = 3, patch = 4, down = patch, across = patch
dim high = row / patch, wide = col / patch, part = high * wide, seq = part + 1
dim classes = 10, batch = 64, one = 1, once = 1
const std = 0.02, eps = 1e-12

block dense(x, over from, along into) {
    w : param[from, into] ~ normal(std) as "weight" [into, from]
    b : param[into]       = 0 as "bias"
    return x @ w over from + b
}

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = eps)
}

block headed(x[hidden]) {
    w : param[hidden, heads, head] ~ normal(std) as "weight" [(heads head), hidden]
    b : param[heads, head]         = 0 as "bias" [(heads head)]
    return x @ w over hidden + b
}

block attend(x[hidden]) {
    w : param[heads, head, hidden] ~ normal(std) as "output.dense.weight" [hidden, (heads head)]
    b : param[hidden]              = 0 as "output.dense.bias"
    q = headed(x) as "attention.query"
    k = headed(x) as "attention.key"
    v = headed(x) as "attention.value"
    return attention(q, k, v, along seq, over head) @ w over (heads, head) + b
}

# An image as positions: a product of each patch, and before them the learnt position.
block embedded(image[colour, row, col]) {
    w     : param[colour, down, across, hidden] ~ normal(std) as "patch_embeddings.projection.weight" [hidden, colour, down, across]
    b     : param[hidden]                       = 0 as "patch_embeddings.projection.bias"
    first : param[once, one, hidden]            ~ normal(std) as "cls_token"
    place : param[once, seq, hidden]            ~ normal(std) as "position_embeddings"
    x = image[row -> (high, down)][col -> (wide, across)] @ w over (colour, down, across) + b
    return join(first[once = 0], x[(high, wide) -> part], (one, part) -> seq) + place[once = 0]
}

block layer(x[hidden]) {
    x = x + attend(norm(x) as "layernorm_before") as "attention"
    h = norm(x) as "layernorm_after"
    return x + dense(gelu(dense(h, over hidden, along ffn) as "intermediate.dense"), over ffn, along hidden) as "output.dense"
}

model vit(image[batch, colour, row, col], label[batch] : token(classes)) {
    x = embedded(image) as "vit.embeddings"
    repeat layers as "vit.encoder.layer.{}" {
        x = layer(x)
    }
    first = (norm(x) as "vit.layernorm")[seq = 0]
    logits = dense(first, over hidden, along classes) as "classifier"
    loss = cross_entropy(logits, label)
    metric accuracy = mean(in_top(logits, label))
}

train {
    optimizer adamw(betas = (0.9, 0.999), eps = 1e-8, decay = 0.05 where rank >= 2)
    lr        cosine(peak = 1e-3, warmup = 100, steps = 2000, floor = 1e-5)
    clip      1.0
}

layout {  # the default: one rank
    device cpu
    mesh   dp = 1, tp = 1
    batch      -> dp
    heads, ffn -> tp
    microbatch 16
}

config {
    architectures = ["ViTForImageClassification"]
    encoder_stride = patch
    hidden_act = "gelu"
    hidden_size = hidden
    image_size = row
    initializer_range = std
    intermediate_size = ffn
    layer_norm_eps = eps
    model_type = "vit"
    num_attention_heads = heads
    num_channels = colour
    num_hidden_layers = layers
    num_labels = classes
    patch_size = patch
    qkv_bias = true
    torch_dtype = "float32"
}
