# whisper.mg - the front of a speech encoder (Radford and others, 2022): two convolutions along time with gelu, the second with
# stride 2; then what the hidden states before a position are worth (a causal convolution of each channel, as of Mamba).
dim mel = 5, time = 12, half = time / 2, tap = 3, hidden = 8, into = hidden, before = 4, classes = 4, batch = 4

model whisper(x[batch, mel, time], y[batch] : token(classes)) {
    w1 : param[hidden, mel, tap]    ~ normal(0.3) as "conv1.weight"
    b1 : param[hidden]              = 0 as "conv1.bias"
    w2 : param[tap, hidden, into]   ~ normal(0.3) as "conv2.weight" [into, hidden, tap]
    b2 : param[into]                = 0 as "conv2.bias"
    w3 : param[before, into]        ~ normal(0.3) as "causal.weight" [into, before]
    b3 : param[into]                = 0 as "causal.bias"
    w  : param[into, classes]       ~ normal(0.3) as "head.weight" [classes, into]
    h = gelu(x[time + tap - 1] @ w1 over (tap, mel) + b1)
    h = gelu(h[time = 2 * half + tap - 1] @ w2 over (tap, hidden) + b2)
    h = silu(sum(h[half - before] * w3, over before) + b3)
    loss = cross_entropy(mean(h, over half) @ w over into, y)
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
