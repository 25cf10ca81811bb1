# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 6, low = 2, high = hidden - low, tap = 3, two = 2, three = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    o = x[hidden -> (two, two)]
    p = x[(seq, hidden) -> vocab]
    q = x[(seq, batch) -> vocab]
    r = x[hidden -> (two, seq)]
    s = x[(two, hidden) -> vocab]
    t = x[(hidden, seq) -> (two, tap)]
    u = join(x[hidden = 0 .. low], x, (low, hidden) -> vocab)
    v = join(x[hidden = 0 .. low], x, (low, high) -> hidden)
    w = join(x, x, (hidden, low) -> vocab)
    y = join(x, (hidden) -> vocab)
    z = x[2 -> hidden]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: :6:27: error[MG0205]: dim 'two' is listed twice
# CHECK: :7:25: error[MG0216]: 'vocab' is 8, and (seq, hidden) are 24
# CHECK: :8:24: error[MG0227]: the rows of a batch have no neighbours: 'batch' is not cut, shifted, split or merged
# CHECK: :9:21: error[MG0217]: there is a dim 'seq' already: the dims are [batch, seq, hidden]
# CHECK: :10:11: error[MG0215]: there is no dim 'two': the dims are [batch, seq, hidden]
# CHECK: :11:25: error[MG0207]: `->` splits one dim or makes one of several; here 2 become 2
# CHECK: :13:36: error[MG0215]: this has no dim 'high'
# CHECK: help: its dims are [batch, seq, hidden]
# CHECK: :14:17: error[MG0215]: this has no dim 'low'
# CHECK: help: its dims are [batch, seq, hidden]
# CHECK: :15:9: error[MG0241]: 'join' takes 2 values; 1 are given
# CHECK: help: its use is join(x, y, (a, b) -> d)
# CHECK: :16:11: error[MG0204]: `->` takes dims
# CHECK-NOT: {{error|warning}}[MG
