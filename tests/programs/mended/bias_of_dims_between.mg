# A bias of the dim that lies between those that it lacks, of those that queries and keys share; and the same where queries
# have a dim of their own.
dim batch = 2, head = 2, part = 3, row = 4, key = row, size = 2, group = 2, hidden = 3

model m(x[batch, row, hidden]) {
    wq   : param[head, part, hidden, size] ~ normal(0.5)
    wk   : param[head, part, hidden, size] ~ normal(0.5)
    wv   : param[head, part, hidden, size] ~ normal(0.5)
    own  : param[group]                    ~ normal(0.5)
    bias : param[head, row, key]           ~ normal(0.5)
    q = x @ wq over hidden
    k = (x @ wk over hidden)[row -> key]
    v = (x @ wv over hidden)[row -> key]
    a = attention(q, k, v, along row, along key, over size, bias = bias)
    b = attention(q * own, k, v, along row, along key, over size, causal, bias = bias)
    loss = mean(a * a) + mean(b * b)
}

train {
    optimizer sgd(momentum = 0.9)
    lr        1e-2
}
