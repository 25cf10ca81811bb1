# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = pick(x, along seq, at = 1 / 3)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0224-integer.mg:6:33: error[MG0224]: this must be an integer; it is 0.333333
# CHECK-NOT: {{error|warning}}[MG
