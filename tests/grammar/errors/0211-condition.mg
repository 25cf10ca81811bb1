# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = (x > 0) * x
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0211-condition.mg:6:17: error[MG0211]: arithmetic on the result of a comparison
# CHECK: help: write `select(condition, 1, 0)`
# CHECK-NOT: {{error|warning}}[MG
