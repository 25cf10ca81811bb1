# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision fp8 (master = f16) }
# CHECK: 0311-fp8.mg:8:58: error[MG0311]: master = f16 beside precision fp8
# CHECK: help: master = f32
# CHECK-NOT: {{error|warning}}[MG
