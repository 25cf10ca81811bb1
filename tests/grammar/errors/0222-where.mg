# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x, over d, k =) {
    return sum(x * k, over d)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(x, over hidden, k = 1 where 2 > 1))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0222-where.mg:9:47: error[MG0222]: `where` has no place here
# CHECK-NOT: {{error|warning}}[MG
