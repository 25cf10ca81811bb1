# clip.mg - CLIP (Radford and others, 2021): an image and a text each become a unit vector, and of all pairs in the batch the right ones
# are to be found, both ways. The batch is computed at once, because its rows are each other's classes. The vector of a text is that of
# its first end token (of its first token, where there is none). Small as it is here, for images of 32 x 32. The published sizes, for images of 224 x 224:
#   B/32: -D layers=12 -D hidden=768 -D heads=12 -D head=64 -D row=224 -D patch=32 -D depth=12 -D width=512 -D parts=8 -D size=64
#         -D shared=512 -D vocab=49408 -D end=49407 -D word=77
dim layers = 4, hidden = 128, heads = 4, head = 32, ffn = 4 * hidden
dim depth = 4, width = 64, parts = 2, size = 32, inner = 4 * width
dim row = 32, col = row, colour = 3, patch = 4, down = patch, across = patch
dim high = row / patch, wide = col / patch, part = high * wide, seq = part + 1, one = 1
dim vocab = 256, word = 32, shared = 64, batch = 32, others = batch
const end = 255, std = 0.02, eps = 1e-5

block dense(x, over from, along into) {
    w : param[from, into] ~ normal(std) as "weight" [into, from]
    b : param[into]       = 0 as "bias"
    return x @ w over from + b
}

block norm(x, over d) {
    gain : param[d] = 1 as "weight"
    bias : param[d] = 0 as "bias"
    return layernorm(x, gain, bias, over d, eps = eps)
}

block headed(x, over d, along n, along h) {
    w : param[d, n, h] ~ normal(std) as "weight" [(n h), d]
    b : param[n, h]    = 0 as "bias" [(n h)]
    return x @ w over d + b
}

block attend(x, along pos, over d, along n, along h, causal) {
    w : param[n, h, d] ~ normal(std) as "out_proj.weight" [d, (n h)]
    b : param[d]       = 0 as "out_proj.bias"
    q = headed(x, over d, along n, along h) as "q_proj"
    k = headed(x, over d, along n, along h) as "k_proj"
    v = headed(x, over d, along n, along h) as "v_proj"
    return attention(q, k, v, along pos, over h, causal = causal) @ w over (n, h) + b
}

block layer(x, along pos, over d, along n, along h, along f, causal) {
    x = x + attend(norm(x, over d) as "layer_norm1", along pos, over d, along n, along h, causal = causal) as "self_attn"
    y = dense(norm(x, over d) as "layer_norm2", over d, along f) as "mlp.fc1"
    return x + dense(y * sigmoid(1.702 * y), over f, along d) as "mlp.fc2"
}

block seen(image[colour, row, col]) {
    w     : param[colour, down, across, hidden] ~ normal(std) as "embeddings.patch_embedding.weight" [hidden, colour, down, across]
    first : param[hidden]                       ~ normal(std) as "embeddings.class_embedding"
    place : param[seq, hidden]                  ~ normal(std) as "embeddings.position_embedding.weight"
    x = image[row -> (high, down)][col -> (wide, across)] @ w over (colour, down, across)
    x = join(expand(first, over one), x[(high, wide) -> part], (one, part) -> seq) + place
    x = norm(x, over hidden) as "pre_layrnorm"
    repeat layers as "encoder.layers.{}" {
        x = layer(x, along seq, over hidden, along heads, along head, along ffn)
    }
    return norm(x[seq = 0], over hidden) as "post_layernorm"
}

block read(text[word]) {
    embed : param[vocab, width] ~ normal(std) as "embeddings.token_embedding.weight"
    place : param[word, width]  ~ normal(std) as "embeddings.position_embedding.weight"
    x = embed[text] + place
    repeat depth as "encoder.layers.{}" {
        x = layer(x, along word, over width, along parts, along size, along inner, causal)
    }
    stop = min(select(text == end, index(word), word), over word)
    stop = select(stop < word, stop, 0)
    return sum(select(index(word) == stop, norm(x, over width) as "final_layer_norm", 0), over word)
}

block unit(x[shared]) {
    return x * rsqrt(sum(x * x, over shared))
}

model clip(image[batch, colour, row, col], text[batch, word] : token(vocab)) {
    scale : param[]               = log(1 / 0.07) as "logit_scale"
    see   : param[hidden, shared] ~ normal(std) as "visual_projection.weight" [shared, hidden]
    tell  : param[width, shared]  ~ normal(std) as "text_projection.weight" [shared, width]
    a = unit((seen(image) as "vision_model") @ see over hidden)
    b = unit((read(text) as "text_model") @ tell over width)
    s = exp(scale) * (a @ b[batch -> others] over shared)
    own = index(batch) == index(others)
    right = mean(sum(select(own, s, 0), over others))
    loss = 0.5 * (mean(log(sum(exp(s), over others))) + mean(log(sum(exp(s), over batch)))) - right
    metric accuracy = mean(select(max(select(own, -1e30, s), over others) < sum(select(own, s, 0), over others), 1, 0))
}

train {
    optimizer adamw(betas = (0.9, 0.98), eps = 1e-6, decay = 0.2 where rank >= 2)
    lr        cosine(peak = 5e-4, warmup = 100, steps = 2000)
    clip      1.0
}

layout {  # the default: one rank
    device cpu
    mesh   dp = 1, tp = 1
    batch                    -> dp
    heads, ffn, parts, inner -> tp
}

config {
    architectures = ["CLIPModel"]
    logit_scale_init_value = log(1 / 0.07)
    model_type = "clip"
    projection_dim = shared
    text_config = {bos_token_id = end - 1, eos_token_id = end, hidden_act = "quick_gelu", hidden_size = width, intermediate_size = inner, layer_norm_eps = eps, max_position_embeddings = word, model_type = "clip_text_model", num_attention_heads = parts, num_hidden_layers = depth, pad_token_id = 0, projection_dim = shared, vocab_size = vocab}
    torch_dtype = "float32"
    vision_config = {hidden_act = "quick_gelu", hidden_size = hidden, image_size = row, intermediate_size = ffn, layer_norm_eps = eps, model_type = "clip_vision_model", num_attention_heads = heads, num_channels = colour, num_hidden_layers = layers, patch_size = patch, projection_dim = shared}
}
