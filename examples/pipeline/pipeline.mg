# pipeline.mg - eight layers of gated units, which the layout cuts into the stages of a pipeline. In f64, so that layouts differ beyond
# the twelfth digit alone.
dim layers = 8, hidden = 64, ffn = 192, past = 4
dim vocab = 256, seq = 64, batch = 32

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}

# Each position sees itself and the three before it: a causal convolution.
block look_back(x[hidden]) {
    dim out = hidden
    w : param[past, hidden, out] ~ normal(0.02) as "weight" [out, hidden, past]
    return (x[seq - past] @ w over (past, hidden))[out -> hidden]
}

block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(0.05) as "gate.weight" [ffn, hidden]
    up   : param[hidden, ffn] ~ normal(0.05) as "up.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(0.02) as "down.weight" [hidden, ffn]
    return (silu(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

model pipeline(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.05) as "embed.weight"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        x = x + look_back(norm(x) as "norm1") as "conv"
        x = x + swiglu(norm(x) as "norm2") as "mlp"
    }
    head : param[vocab, hidden] ~ normal(0.05) as "head.weight"
    loss = cross_entropy((norm(x) as "norm") @ head over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95))
    lr        cosine(peak = 3e-3, warmup = 5, steps = 30)
    clip      1.0
    precision f64
}

layout {
    device cpu
    mesh   pp = 1
    layers -> pp (schedule = zb-h1)
    microbatch 4
}
