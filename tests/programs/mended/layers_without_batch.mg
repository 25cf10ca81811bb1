# Layers whose gradients do not depend on the batch, as stages of a pipeline with two chunks a rank: each microbatch has its
# share of them, stage by stage.
dim batch = 4, layers = 4, hidden = 4

model m(x[batch]) {
    penalty = 0
    repeat layers {
        w : param[hidden] ~ normal(0.5)
        penalty = penalty + sum(tanh(w * w), over hidden) * (1 + penalty)
    }
    loss = mean(x) + 0.1 * penalty
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    mesh pp = 2
    layers -> pp (schedule = interleaved, chunks = 2, group = 2)
    microbatch 1
}
