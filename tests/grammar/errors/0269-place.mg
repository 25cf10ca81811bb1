# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    p : param[hidden, wide] ~ normal(0.02) as "p" [hidden at 0, wide at 0]
    q : param[hidden, wide] ~ normal(0.02) as "q" [hidden, wide at 0 - 1]
    r : param[hidden, wide] ~ normal(0.02) as "r" [hidden, wide at wide / 8]
    s : param[hidden, wide] ~ normal(0.02) as "s" [hidden, wide at 9223372036854775807]
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0269-place.mg:5:70: error[MG0269]: 'at' stands twice: a part is a range of one external dim
# CHECK: 0269-place.mg:6:68: error[MG0269]: a part of 4 elements cannot begin at -1
# CHECK: 0269-place.mg:7:68: error[MG0224]: this must be an integer; it is 0.5
# CHECK: 0269-place.mg:8:68: error[MG0269]: a part of 4 elements cannot begin at 9223372036854775807
# CHECK-NOT: error[MG
