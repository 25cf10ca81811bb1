# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    x = table[tokens]
    other = mean(x * x)
    loss = cross_entropy(x @ head over hidden, next(tokens)) + other
}
train { optimizer sgd()  lr 0.1 }
train othr where "head" { optimizer sgd()  lr 0.1 }
# CHECK: 0270-other.mg:11:7: error[MG0270]: the model assigns no 'othr'
# CHECK: help: did you mean 'other'?
# CHECK-NOT: {{error|warning}}[MG
