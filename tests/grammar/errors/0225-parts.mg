# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 6, low = 2, high = hidden - low, tap = 3, two = 2, three = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    a = x[seq - tap * two]
    b = x[seq = sin(1) * tap]
    c = x[seq - hidden]
    d = x[tap + two]
    e = x[tap = two]
    f = x[seq = 7]
    g = x[seq - 3000000000]
    h = x[hidden = 1 .. 3]
    i = x[hidden = low .. hidden -> low]
    j = x[hidden = 4 .. 9 -> low]
    k = x[hidden = 3 .. 3 -> low]
    l = x[hidden = 2 .. 6 -> seq]
    n = x[batch - tap]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: :6:21: error[MG0225]: an index is a sum of dims, each times a whole number
# CHECK: :7:17: error[MG0224]: this must be an integer; it is 0.841471
# CHECK: :8:11: error[MG0225]: the value has 2 of these dims: which is cut must be said
# CHECK: help: `x[d = ...]` takes parts along d; the dims are [batch, seq, hidden]
# CHECK: :9:11: error[MG0225]: the value has none of these dims
# CHECK: help: `x[d = ...]` takes parts along d; the dims are [batch, seq, hidden]
# CHECK: :10:11: error[MG0215]: there is no dim 'tap' to take parts along
# CHECK: help: the dims are [batch, seq, hidden]
# CHECK: :11:11: error[MG0251]: index 7 of dim 'seq', which has 4
# CHECK: :12:17: error[MG0225]: the index is beyond 2^31
# CHECK: :13:11: error[MG0226]: the dim of this part has no name
# CHECK: help: `dim part = ...` and `x[hidden = ... -> part]` give it one
# CHECK: :14:11: error[MG0216]: elements 2 to 5 are 4, and 'low' is 2
# CHECK: :15:11: error[MG0251]: elements 4 to 8 of dim 'hidden', which has 6
# CHECK: :16:11: error[MG0251]: the part 3 .. 3 of dim 'hidden' is empty
# CHECK: :17:11: error[MG0217]: there is a dim 'seq' already: the dims are [batch, seq, hidden]
# CHECK: :18:17: error[MG0227]: the rows of a batch have no neighbours: 'batch' is not cut, shifted, split or merged
# CHECK-NOT: {{error|warning}}[MG
