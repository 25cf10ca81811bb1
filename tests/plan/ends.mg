# ends.mg - what both ends of a pipeline compute, and all stages: what a loop makes before the layers is read by each layer and behind
# them, a table is changed before it is looked up and multiplied by, and a sum goes through the layers of one tower, then of another.
dim layers = 4, before = 2, hidden = 8, wide = 8, vocab = 256, seq = 8, batch = 8

block tower(x[hidden], c[hidden], size) {
    repeat layers as "layers.{}" {
        w : param[hidden, wide] ~ normal(0.3) as "weight" [wide, hidden]
        y = tanh(x @ w over hidden)[wide -> hidden] * c
        size = size + mean(y * y)
        x = x + y
    }
    return x, size
}

model ends(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.5)
    gain  : param[hidden]        = 1
    all   : param[hidden, wide]  ~ normal(0.5)
    a     : block tower as "a"
    b     : block tower as "b"
    e = rmsnorm(tanh(embed)[tokens], gain, over hidden, eps = 1e-6)
    repeat before as "before.{}" {
        mix : param[hidden, wide] ~ normal(0.3) as "weight" [wide, hidden]
        e = e + tanh(e @ mix over hidden)[wide -> hidden]
    }
    c = e @ all over hidden
    x, size = a(e, c[wide -> hidden], 0)
    y, size = b(e * 2, c[wide -> hidden] + 1, size)
    x = x + y + 0.5 * e
    loss = cross_entropy(x @ tanh(embed) over hidden, next(tokens)) + 0.1 * size
}

train {
    optimizer adamw
    lr        0.01
    clip      0.5
    precision f64
}

layout {
    device     cpu
    microbatch 2
}
