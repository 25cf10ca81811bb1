# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    far = x + log(0) + sqrt(1 - 2)
    y = pow(hidden - 3, -1) * x
    z = select(x > 0, x, -1e39)
    u = x * exp(200)
    loss = cross_entropy(u @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0212-infinite.mg:6:15: error[MG0212]: log of 0 is infinite
# CHECK: 0212-infinite.mg:6:24: error[MG0212]: sqrt of -1 is not a number
# CHECK: 0212-infinite.mg:7:9: error[MG0212]: pow of 0 and -1 is infinite
# CHECK: 0212-infinite.mg:8:9: error[MG0212]: -1e+39 is infinite in f32, whose largest number is 3.4e38
# CHECK: 0212-infinite.mg:9:11: error[MG0212]: 7.22597e+86 is infinite in f32
# CHECK-NOT: {{error|warning}}[MG
