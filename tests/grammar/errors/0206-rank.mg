# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim a = 1, b = 1, c = 1, d = 1, e = 1, f = 1
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[a, b, c, d, e, f] = 0
    y = x * w
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0206-rank.mg:8:11: error[MG0206]: the result would have more than 8 dims
# CHECK-NOT: {{error|warning}}[MG
