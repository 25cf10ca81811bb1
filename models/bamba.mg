# bamba.mg - a hybrid (Bamba, IBM, Princeton, CMU and UIUC, 2024): every ninth layer attends, with positions that turn half of each head;
# the others are Mamba 2. Each is followed by an MLP. Small as it is here. The published size:
#   9B: -D layers=32 -D hidden=4096 -D kv_heads=8 -D group=4 -D size=128 -D ffn=14336 -D heads=128 -D head=64 -D state=128
#       -D vocab=128256 -D seq=4096 -D every=9
dim layers = 4, hidden = 128, kv_heads = 2, group = 2, size = 32, turn = size / 2, still = size - turn, ffn = 256
dim heads = 8, head = 32, state = 32, tap = 4, one = 1
dim inner = heads * head, mixed = inner + 2 * state, all = inner + mixed + heads
dim vocab = 256, seq = 256, batch = 16
const every = 3, eps = 1e-5, std = 0.02, theta = 10000

block conv(x[mixed]) {
    w : param[mixed, one, tap] ~ uniform(-1 / sqrt(tap), 1 / sqrt(tap)) as "weight" [mixed, one, tap]
    b : param[mixed]           = 0 as "bias"
    k = w[one = 0]
    return silu(x[seq - 3] * k[tap = 0] + x[seq - 2] * k[tap = 1] + x[seq - 1] * k[tap = 2] + x * k[tap = 3] + b)
}

block mixer(x[hidden]) {
    win  : param[hidden, all]         ~ normal(std) as "in_proj.weight" [all, hidden]
    bd   : param[heads]               = 1 as "dt_bias"
    rate : param[heads]               = log(1 + index(heads)) as "A_log"
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

block turned(x[size]) {
    return join(rope(x[size = 0 .. turn], along seq, over turn, theta = theta), x[size = turn .. size -> still], (turn, still) -> size)
}

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, size] ~ normal(std) as "q_proj.weight" [(kv_heads group size), hidden]
    wk : param[hidden, kv_heads, size]        ~ normal(std) as "k_proj.weight" [(kv_heads size), hidden]
    wv : param[hidden, kv_heads, size]        ~ normal(std) as "v_proj.weight" [(kv_heads size), hidden]
    wo : param[kv_heads, group, size, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group size)]
    q = turned(x @ wq over hidden)
    k = turned(x @ wk over hidden)
    return attention(q, k, x @ wv over hidden, along seq, over size, causal) @ wo over (kv_heads, group, size)
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(std) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model bamba(tokens[batch, seq] : token(vocab)) {
    embed   : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    x = embed[tokens]
    repeat layers at l as "model.layers.{}" {
        h = norm(x) as "input_layernorm"
        x = x + select((l > 0) * (l % every == 0), attend(h) as "self_attn", mixer(h) as "mamba")
        x = x + swiglu(norm(x) as "pre_ff_layernorm") as "feed_forward"
    }
    loss = cross_entropy((norm(x) as "model.final_layernorm") @ unembed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-3, warmup = 100, steps = 2000, floor = 1e-4)
    clip      1.0
}

layout {  # the default: one rank
    device cpu
    mesh   pp = 1, dp = 1, tp = 1
    batch                -> dp
    kv_heads, ffn, vocab -> tp
    layers               -> pp (schedule = 1f1b)
    microbatch 4
}

config {
    architectures = ["BambaForCausalLM"]
    attn_layer_indices = [every, 2 * every, 3 * every, 4 * every, 5 * every, 6 * every]
    hidden_act = "silu"
    hidden_size = hidden
    initializer_range = std
    intermediate_size = ffn
    max_position_embeddings = seq
    mamba_d_conv = tap
    mamba_d_head = head
    mamba_d_state = state
    mamba_expand = inner / hidden
    mamba_n_groups = 1
    mamba_n_heads = heads
    model_type = "bamba"
    num_attention_heads = kv_heads * group
    num_hidden_layers = layers
    num_key_value_heads = kv_heads
    rms_norm_eps = eps
    rope_theta = theta
    tie_word_embeddings = false
    torch_dtype = "float32"
    vocab_size = vocab
}
