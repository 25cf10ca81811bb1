# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh pp = 1  seq -> pp (schedule = 1f2b) }
# CHECK: 0324-schedule.mg:9:45: error[MG0324]: there is no schedule '1f2b'
# CHECK: help: did you mean '1f1b'?
# CHECK: help: there is: 1f1b, gpipe, interleaved, zb-h1
# CHECK-NOT: {{error|warning}}[MG
