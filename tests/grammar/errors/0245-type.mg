# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(y : tokn(vocab)) {
    return y
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, f(next(tokens)))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0245-type.mg:3:9: error[MG0245]: 'tokn' is not a type of values
# CHECK: help: did you mean 'token'?
# CHECK-NOT: {{error|warning}}[MG
