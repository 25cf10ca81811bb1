# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2, a = 1, b = 1, c = 1, d = 1, e = 1, f = 1, g = 1, h = 1
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x
    repeat deep {
        w : param[a, b, c, d, e, f, g, h] = 0
        y = y * sum(w)
    }
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0206-rank-stacked.mg:9:9: error[MG0206]: 'w' has more than 8 dims, those of the repeats counted
# CHECK-NOT: {{error|warning}}[MG
