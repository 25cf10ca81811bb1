# The gradient of what a scan begins with is lost in it (sign), and has no stage of its own.
dim hidden = 4, outer = 2, ffn = 6, vocab = 8, col = 4, near = 2, batch = 4, seq = 2, heads = 2
model m(tokens[batch, seq] : token(vocab)) {
    embed5 : param[vocab, near] ~ uniform(-0.5, 0.5)
    x = embed5[tokens]
    w6 : param[heads] ~ normal(0.3)
    x = x * w6
    scan vocab {
        x = sign(x * embed5)
    }
    repeat outer as "r14.{}" {
        w17 : param[near, heads] ~ normal(0.3)
        x = x + 0.3 * x * w17
    }
    head18 : param[vocab, near, heads] = 0.5
    loss = cross_entropy(x @ head18 over (heads, near), next(tokens))
}
train { optimizer sgd  lr 0.1 }
layout {
    mesh pp = 2
    outer -> pp (schedule = 1f1b)
}
