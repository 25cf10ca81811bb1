# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { device gpu }
# CHECK: 0307-device.mg:9:17: error[MG0307]: there is no device 'gpu'
# CHECK: help: did you mean 'cpu'?
# CHECK: help: there is: cpu, cpus, a100, h100, h200
# CHECK-NOT: {{error|warning}}[MG
