# whisper.mg - Whisper (Radford and others, 2022), which writes down what is said: two convolutions make positions of a spectrogram, an
# encoder sees all of them, and a decoder that writes the text looks at them in every layer. The weights say which targets count.
# Small as it is here. The published sizes:
#   tiny:  -D layers=4 -D depth=4 -D hidden=384 -D heads=6 -D head=64 -D mel=80 -D sound=1500 -D word=448 -D vocab=51865
#   small: -D layers=12 -D depth=12 -D hidden=768 -D heads=12 -D head=64 -D mel=80 -D sound=1500 -D word=448 -D vocab=51865
dim layers = 2, depth = 2, hidden = 64, heads = 2, head = 32, ffn = 4 * hidden
dim mel = 16, sound = 64, frame = 2 * sound, time = frame, tap = 3
dim vocab = 256, word = 32, batch = 16
const std = 0.02, eps = 1e-5

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

block key(x[hidden]) {
    w : param[hidden, heads, head] ~ normal(std) as "weight" [(heads head), hidden]
    return x @ w over hidden
}

# Attention of x along one dim to m along another; both may be the same.
block attend(x[hidden], m[hidden], along pos, along from, causal) {
    dim t = from
    w : param[heads, head, hidden] ~ normal(std) as "out_proj.weight" [hidden, (heads head)]
    b : param[hidden]              = 0 as "out_proj.bias"
    q = headed(x) as "q_proj"
    k = (key(m) as "k_proj")[from -> t]
    v = (headed(m) as "v_proj")[from -> t]
    return attention(q, k, v, along pos, along t, over head, causal = causal) @ w over (heads, head) + b
}

block mlp(x[hidden]) {
    h = norm(x) as "final_layer_norm"
    return dense(gelu(dense(h, over hidden, along ffn) as "fc1"), over ffn, along hidden) as "fc2"
}

block heard(features[mel, frame]) {
    w1    : param[mel, tap, hidden]   ~ normal(std) as "conv1.weight" [hidden, mel, tap]
    b1    : param[hidden]             = 0 as "conv1.bias"
    w2    : param[inner, tap, hidden] ~ normal(std) as "conv2.weight" [hidden, inner, tap]
    b2    : param[hidden]             = 0 as "conv2.bias"
    place : param[sound, hidden]      ~ normal(std) as "embed_positions.weight"
    x = gelu(features[frame = time + tap - 1] @ w1 over (mel, tap) + b1)
    x = gelu(x[hidden -> inner][time = 2 * sound + tap - 1] @ w2 over (inner, tap) + b2) + place
    repeat layers as "layers.{}" {
        h = norm(x) as "self_attn_layer_norm"
        x = x + attend(h, h, along sound, along sound) as "self_attn"
        x = x + mlp(x)
    }
    return norm(x) as "layer_norm"
}

block written(text[word], m[sound, hidden]) {
    embed : param[vocab, hidden] ~ normal(std) as "embed_tokens.weight"
    place : param[word, hidden]  ~ normal(std) as "embed_positions.weight"
    x = embed[text] + place
    repeat depth as "layers.{}" {
        h = norm(x) as "self_attn_layer_norm"
        x = x + attend(h, h, along word, along word, causal) as "self_attn"
        x = x + attend(norm(x) as "encoder_attn_layer_norm", m, along word, along sound) as "encoder_attn"
        x = x + mlp(x)
    }
    return (norm(x) as "layer_norm") @ embed over hidden
}

model whisper(features[batch, mel, frame], text[batch, word] : token(vocab), target[batch, word] : token(vocab), weight[batch, word]) {
    m = heard(features) as "model.encoder"
    logits = written(text, m) as "model.decoder"
    loss = cross_entropy(logits, target, weight)
    metric accuracy = sum(weight * in_top(logits, target)) / sum(weight)
}

dim inner = hidden

train {
    optimizer adamw(betas = (0.9, 0.98), eps = 1e-6, decay = 0.1 where rank >= 2)
    lr        linear(peak = 1e-3, warmup = 100, steps = 2000)
    clip      1.0
    frozen    where "model.encoder.embed_positions.weight"
}

layout {  # the default: one rank
    device cpu
    mesh   dp = 1, tp = 1
    batch             -> dp
    heads, ffn, vocab -> tp
    microbatch 8
}

config {
    activation_function = "gelu"
    architectures = ["WhisperForConditionalGeneration"]
    bos_token_id = vocab - 1
    d_model = hidden
    decoder_attention_heads = heads
    decoder_ffn_dim = ffn
    decoder_layers = depth
    decoder_start_token_id = vocab - 1
    dropout = 0.0
    encoder_attention_heads = heads
    encoder_ffn_dim = ffn
    encoder_layers = layers
    eos_token_id = vocab - 1
    is_encoder_decoder = true
    max_source_positions = sound
    max_target_positions = word
    model_type = "whisper"
    num_mel_bins = mel
    pad_token_id = vocab - 1
    torch_dtype = "float32"
    vocab_size = vocab
}
