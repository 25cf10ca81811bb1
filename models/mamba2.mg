# mamba2.mg - Mamba 2 (Dao, Gu, 2024): no attention; each head has a state that fades as the input says, behind a causal convolution over
# the last four positions. Small as it is here. The published sizes, all with -D head=64 -D state=128 -D vocab=50288 -D seq=2048:
#   130M: -D layers=24 -D hidden=768 -D heads=24      370M: -D layers=48 -D hidden=1024 -D heads=32
#   780M: -D layers=48 -D hidden=1536 -D heads=48     1.3B: -D layers=48 -D hidden=2048 -D heads=64
#   2.7B: -D layers=64 -D hidden=2560 -D heads=80
dim layers = 4, hidden = 128, heads = 8, head = 32, state = 32, tap = 4, one = 1
dim inner = heads * head, mixed = inner + 2 * state, all = inner + mixed + heads
dim vocab = 256, seq = 256, batch = 16
const eps = 1e-5, std = 0.02

block conv(x[mixed]) {
    w : param[mixed, one, tap] ~ uniform(-1 / sqrt(tap), 1 / sqrt(tap)) as "weight" [mixed, one, tap]
    b : param[mixed]           = 0 as "bias"
    k = w[one = 0]
    return silu(x[seq - 3] * k[tap = 0] + x[seq - 2] * k[tap = 1] + x[seq - 1] * k[tap = 2] + x * k[tap = 3] + b)
}

block mixer(x[hidden]) {
    win  : param[hidden, all]         ~ normal(std) as "in_proj.weight" [all, hidden]
    bd   : param[heads]               ~ uniform(-6.9, -2.3) as "dt_bias"
    rate : param[heads]               ~ uniform(0, 2.77) as "A_log"
    skip : param[heads]               = 1 as "D"
    gain : param[heads, head]         = 1 as "norm.weight" [(heads head)]
    wo   : param[heads, head, hidden] ~ normal(std / sqrt(2 * layers)) as "out_proj.weight" [hidden, (heads head)]
    p = x @ win over hidden
    z = p[all = 0 .. inner][inner -> (heads, head)]
    c = conv(p[all = inner .. inner + mixed -> mixed]) as "conv1d"
    u = c[mixed = 0 .. inner][inner -> (heads, head)]
    k = c[mixed = inner .. inner + state -> state]
    q = c[mixed = inner + state .. inner + 2 * state -> state]
    r = p[all = inner + mixed .. all -> heads] + bd
    dt = log(1 + exp(-abs(r))) + max(r, 0)
    h = expand(0, over (batch, heads, head, state))
    scan seq {
        h = exp(-exp(rate) * dt) * h + dt * u * k
        read = q @ h over state
    }
    g = (read + skip * u) * silu(z)
    return rmsnorm(g, gain, over (heads, head), eps = eps) @ wo over (heads, head)
}

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

model mamba2(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(std) as "backbone.embeddings.weight"
    x = embed[tokens]
    repeat layers as "backbone.layers.{}" {
        x = x + mixer(norm(x) as "norm") as "mixer"
    }
    loss = cross_entropy((norm(x) as "backbone.norm_f") @ embed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-3, warmup = 100, steps = 2000, floor = 1e-4)
    clip      1.0
}

layout {  # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1
    batch  -> dp
    layers -> pp (schedule = 1f1b)
    microbatch 4
}

config {
    architectures = ["Mamba2ForCausalLM"]
    conv_kernel = tap
    expand = inner / hidden
    head_dim = head
    hidden_act = "silu"
    hidden_size = hidden
    layer_norm_epsilon = eps
    model_type = "mamba2"
    n_groups = 1
    num_heads = heads
    num_hidden_layers = layers
    rms_norm = true
    state_size = state
    tie_word_embeddings = true
    use_bias = false
    use_conv_bias = true
    vocab_size = vocab
}
