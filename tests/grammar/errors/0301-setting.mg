# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimiser sgd()  lr 0.1 }
# CHECK: 0301-setting.mg:8:9: error[MG0301]: there is no setting 'optimiser'
# CHECK: help: did you mean 'optimizer'?
# CHECK: help: there is: optimizer, lr, clip, average, precision
# CHECK-NOT: {{error|warning}}[MG
