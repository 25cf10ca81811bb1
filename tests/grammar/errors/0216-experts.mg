# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, experts = 3, choice = 4, best = 2, most = 5, slot = 4, k = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    gate : param[hidden, choice] ~ normal(0.02)
    x = table[tokens]
    score = x @ gate over hidden
    chosen = top(score, choice -> best)
    a = top(score, choice -> most)
    b = top(score, hidden -> best)
    c = top(score, choice -> seq)
    d = top(chosen, best -> k)
    e = dispatch(x, chosen, seq -> (experts, slot))
    f = dispatch(x, score, seq -> (choice, slot))
    g = dispatch(x, chosen, seq -> slot)
    h = dispatch(x, chosen, seq)
    z = dispatch(x, chosen, seq -> (choice, slot))
    i = combine(z, chosen, score, (choice, slot) -> seq)
    j = combine(x, chosen, (choice, slot) -> seq)
    l = dispatch(x, chosen, seq -> (choice + 1, slot))
    n = dispatch(score, chosen, seq -> (choice, slot))
    o = dispatch(sum(x, over batch), chosen, seq -> (choice, slot))
    p = sum(x, seq -> slot)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: :9:27: error[MG0216]: 'most' is 5, and 'choice' has only 4
# CHECK: :10:13: error[MG0215]: this has no dim 'hidden'
# CHECK: :11:13: error[MG0217]: there is a dim 'seq' already
# CHECK: :12:13: error[MG0211]: numbers are wanted here
# CHECK: :13:21: error[MG0216]: these choose among the 4 of 'choice', and 'experts' are 3
# CHECK: :14:21: error[MG0218]: these are no choices, as top(score, choice -> best) gives
# CHECK: :15:33: error[MG0216]: 'slot' is 4, and a group makes 8 choices
# CHECK: help: each choice has a row: dim slot = 8
# CHECK: :16:9: error[MG0241]: 'dispatch'
# CHECK: :18:28: error[MG0215]: there is a weight for each choice
# CHECK: :19:17: error[MG0215]: this has no dim 'choice'
# CHECK: :20:37: error[MG0204]: `->` takes dims
# CHECK: :21:18: error[MG0217]: there is a dim 'choice' already
# CHECK: :22:38: error[MG0213]: 'batch' and 'best' are dims of the choices, and not of the rows
# CHECK: :23:9: error[MG0241]: 'sum' takes no such `->`
# CHECK-NOT: {{error|warning}}[MG
