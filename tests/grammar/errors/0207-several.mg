# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x, over d) {
    return index(d) * x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(x, over (seq, hidden)))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0207-several.mg:4:18: error[MG0207]: 'd' stands for 2 dims (seq, hidden) where one is wanted
# CHECK-NOT: {{error|warning}}[MG
