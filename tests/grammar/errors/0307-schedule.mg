# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr cosinus(peak = 1, steps = 9) }
# CHECK: 0307-schedule.mg:8:29: error[MG0307]: there is no schedule 'cosinus'
# CHECK: help: did you mean 'cosine'?
# CHECK: help: there is: constant, linear, cosine
# CHECK-NOT: {{error|warning}}[MG
