# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { assert step < 3 ms }
# CHECK: 0329-step.mg:9:17: error[MG0329]: asserting the time of a step is not built yet
# CHECK: help: assert peak and exposed_comm
# CHECK-NOT: {{error|warning}}[MG
