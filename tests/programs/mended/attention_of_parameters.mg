# Attention, and experts, of parameters alone: what comes back to them is summed over the batch, and their gradients are
# linear in it, so that each microbatch has its part.
dim vocab = 4, batch = 4, seq = 4, hidden = 4, experts = 2, choice = 2, best = 1, slot = 4

model m(tokens[batch, seq] : token(vocab)) {
    embed  : param[vocab, hidden]   ~ normal(0.3)
    place  : param[seq, hidden]     ~ normal(0.3)
    router : param[hidden, choice]  ~ normal(0.3)
    w      : param[experts, hidden] ~ normal(0.3)
    at = attention(place, place, place, along seq, over hidden, causal)
    score = softmax(at @ router over hidden, over choice)
    chosen = top(score, choice -> best)
    z = dispatch(at, chosen, seq -> (experts, slot))
    at = at + combine(tanh(z * w), chosen, scores_of(score, chosen), (experts, slot) -> seq)
    x = embed[tokens] + at
    head : param[hidden, vocab] ~ normal(0.3)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    microbatch 2
}
