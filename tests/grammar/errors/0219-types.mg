# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim a = 1, b = 1, c = 1, d = 1, e = 1, f = 1, g = 1
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    u : param[a, b, c, d] = 0
    v : param[e, f, g] = 0
    loss = mean(select(x > 0, u, v))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0219-types.mg:9:17: error[MG0219]: select: the result would have more than 8 dims
# CHECK-NOT: {{error|warning}}[MG
