# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer a(s0 = 1, s1 = 1, s2 = 1, s3 = 1, s4 = 1, s5 = 1, s6 = 1, s7 = 1, s8 = 1, s9 = 1, s10 = 1, s11 = 1, s12 = 1, s13 = 1, s14 = 1, s15 = 1, s16 = 1) {
    p = p - lr * g * (s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11 + s12 + s13 + s14 + s15 + s16)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a()  lr 0.1 }
# CHECK: 0109-numbers.mg:3:147: error[MG0109]: an optimizer has at most 16 settings with names of its own
# CHECK-NOT: {{error|warning}}[MG
