# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh pp = 1  seq -> pp (schedule) }
# CHECK: 0324-no-value.mg:9:34: error[MG0324]: 'schedule' needs a value: schedule = 1f1b
# CHECK-NOT: {{error|warning}}[MG
