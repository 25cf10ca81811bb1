# expert_choice.mg - experts choose positions (Zhou and others, 2022): each takes those of a sequence that score highest with it, so all
# have as much to do, and a position may be of several experts or of none.
dim layers = 2, hidden = 16, ffn = 8, experts = 4, slot = 3
dim vocab = 32, seq = 8, batch = 4

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = 1e-6)
}

block moe(x[hidden]) {
    gate : param[hidden, experts]      ~ normal(0.3) as "gate.weight" [experts, hidden]
    w1   : param[experts, hidden, ffn] ~ normal(0.3) as "experts.{}.up.weight" [ffn, hidden]
    w2   : param[experts, ffn, hidden] ~ normal(0.3) as "experts.{}.down.weight" [hidden, ffn]
    score = softmax(x @ gate over hidden, over experts)
    chosen = top(score, seq -> slot)
    hit = select(index(seq) == chosen, 1, 0)
    y = silu(hit @ x over seq @ w1 over hidden) @ w2 over ffn
    return (hit * scores_of(score, chosen)) @ y over (experts, slot)
}

block mix(x[hidden]) {
    dim key = seq
    w : param[hidden] = 1 as "weight"
    before = select(index(key) <= index(seq), 1 / (1 + index(seq)), 0)
    return before @ (x * w)[seq -> key] over key
}

model choice(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    spot  : param[seq, hidden]   ~ normal(0.3) as "pos.weight"
    x = embed[tokens] + spot
    repeat layers as "{}" {
        x = x + mix(norm(x) as "ln1") as "mix"
        x = x + moe(norm(x) as "ln2") as "moe"
    }
    loss = cross_entropy((norm(x) as "norm") @ embed over hidden, next(tokens))
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
