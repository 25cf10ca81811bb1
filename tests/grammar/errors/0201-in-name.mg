# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
const half = 0.5
block dense(x[hidden]) {
    gain : param[hidden] = 1 as "{layers}.weight"
    return x * gain
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    gain : param[hidden] = 1 as "{half}.gain"
    loss = cross_entropy((dense(x) * gain) @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0201-in-name.mg:11:5: error[MG0224]: this must be an integer; it is 0.5
# CHECK: 0201-in-name.mg:5:5: error[MG0201]: unknown name 'layers'
# CHECK-NOT: {{error|warning}}[MG
