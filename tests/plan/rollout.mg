# Learns what it generates; small.
dim batch = 4, seq = 6, vocab = 11, hidden = 8, kv = 1, group = 2, head = 4, layers = 2, marks = 3, one = 1

model rollout(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), advantage[batch, one], old[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.5) as "embed.weight"
    x = table[tokens]
    repeat layers as "layers.{}" {
        wq : param[hidden, kv, group, head] ~ normal(0.4) as "q.weight" [(kv group head), hidden]
        wk : param[hidden, kv, head]        ~ normal(0.4) as "k.weight" [(kv head), hidden]
        wv : param[hidden, kv, head]        ~ normal(0.4) as "v.weight" [(kv head), hidden]
        wo : param[kv, group, head, hidden] ~ normal(0.4) as "o.weight" [hidden, (kv group head)]
        o = attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head, causal)
        x = x + tanh(o @ wo over (kv, group, head))
    }
    logits = x @ table over hidden
    likely = sum(select(index(vocab) == next(tokens), logits, 0), over vocab) - log(sum(exp(logits), over vocab))
    learnt = select(next(mask) == 1, 1, 0)
    ratio = exp(likely - old)
    metric clipped = sum(learnt * select(ratio > 1.2, 1, 0)) / max(sum(learnt), 1)
    loss = -sum(learnt * ratio * advantage[one = 0]) / max(sum(learnt), 1)
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1)
    lr        0.01
    rollout   groups(size = 2, tokens = 3, updates = 2)
}
