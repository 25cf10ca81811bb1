# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, ffn = 5, experts = 4, choice = 4, best = 2, rows = 8, few = 7, six = 6
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    gate : param[hidden, choice] ~ normal(0.02)
    w : param[experts, hidden, ffn] ~ normal(0.02)
    v : param[six, hidden, ffn] ~ normal(0.02)
    u : param[experts, hidden] ~ normal(0.02)
    x = table[tokens]
    score = x @ gate over hidden
    chosen = top(score, choice -> best)
    z = dispatch(x, chosen, seq -> rows)
    a = dispatch(x, chosen, seq -> few)
    b = combine(z, chosen, few -> seq)
    c = combine(x, chosen, rows -> seq)
    d = grouped(z, w, chosen, experts -> few, over hidden)
    e = grouped(z, v, chosen, six -> rows, over hidden)
    f = grouped(z, w, chosen, experts -> rows, over ffn)
    g = grouped(z, u, chosen, experts -> rows, over hidden)
    h = grouped(z, w, score, experts -> rows, over hidden)
    i = grouped(z, w, chosen, experts -> rows)
    j = grouped(z, w, chosen, over hidden)
    k = grouped(x, w, chosen, experts -> rows, over hidden)
    l = grouped(z, 2, chosen, experts -> rows, over hidden)
    n = grouped(expand(z, over ffn), w, chosen, experts -> rows, over hidden)
    o = grouped(z, w, top(sum(score, over batch), choice -> best), experts -> rows, over hidden)
    p = grouped(z, w, chosen, (experts, ffn) -> rows, over hidden)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: :13:33: error[MG0216]: 'few' is 7, and a group makes 8 choices
# CHECK: help: each choice has a row: dim few = 8
# CHECK: :14:17: error[MG0215]: this has no dim 'few'
# CHECK: :15:17: error[MG0215]: this has no dim 'rows'
# CHECK: :16:17: error[MG0215]: this has no dim 'few'
# CHECK: :17:23: error[MG0216]: these choose among the 4 of 'choice', and 'six' are 6
# CHECK: :18:17: error[MG0215]: this has no dim 'ffn'
# CHECK: :19:20: error[MG0215]: the matrices have no dim but those that are summed: {{.}}experts, hidden]
# CHECK: :20:23: error[MG0218]: these are no choices, as top(score, choice -> best) gives
# CHECK: :21:9: error[MG0241]: 'grouped' needs `over d`
# CHECK: help: its use is grouped(z, w, chosen, experts -> rows, over hidden)
# CHECK: :22:9: error[MG0241]: 'grouped' needs `->`
# CHECK: help: its use is grouped(z, w, chosen, experts -> rows, over hidden)
# CHECK: :23:17: error[MG0215]: this has no dim 'rows'
# CHECK: :24:20: error[MG0214]: 'grouped' of a number, which has no dims
# CHECK: :25:17: error[MG0213]: a row has the dim 'ffn', which is not summed
# CHECK: :26:17: error[MG0213]: a row has the dim 'batch', which is not summed
# CHECK: :27:46: error[MG0241]: 'grouped' takes other dims than these
# CHECK: help: its use is grouped(z, w, chosen, experts -> rows, over hidden)
# CHECK-NOT: {{error|warning}}[MG
