# dpo.mg - direct preference optimization (Rafailov and others, 2023): of two answers the better one is to gain probability over the
# worse one, as compared with a model that stays as it is; a weight says which tokens are the answer's.
dim hidden = 16, ffn = 16, which = 2
dim vocab = 32, seq = 8, batch = 4
const beta = 0.5

block fade(x[hidden]) {
    dim key = seq
    w : param[hidden] = 1 as "weight"
    return select(index(key) <= index(seq), exp(index(key) - index(seq)), 0) @ (x * w)[seq -> key] over key
}

# The log-probability of each answer.
block policy(ids : token(vocab), target : token(vocab), weight[seq]) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    up    : param[hidden, ffn]   ~ normal(0.3) as "up.weight" [ffn, hidden]
    down  : param[ffn, hidden]   ~ normal(0.3) as "down.weight" [hidden, ffn]
    x = fade(embed[ids]) as "mix"
    x = x + silu(x @ up over hidden) @ down over ffn
    z = x @ embed over hidden
    m = max(z, over vocab)
    log_p = z - m - log(sum(exp(z - m), over vocab))
    return sum(weight * sum(select(index(vocab) == target, log_p, 0), over vocab), over seq)
}

model dpo(ids[batch, which, seq] : token(vocab), target[batch, which, seq] : token(vocab), weight[batch, which, seq]) {
    gain = (policy(ids, target, weight) as "policy") - (policy(ids, target, weight) as "reference")
    margin = beta * (pick(gain, along which, at = 0) - pick(gain, along which, at = 1))
    loss = mean(log(1 + exp(-abs(margin))) + max(-margin, 0))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    frozen    where "reference.*"
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
