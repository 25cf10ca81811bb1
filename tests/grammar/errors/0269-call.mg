# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 4
block two(x[hidden]) {
    a : param[hidden, wide] ~ normal(0.02) as "ab" [wide at 0, hidden]
    b : param[hidden, wide] ~ normal(0.02) as "ab" [wide at wide, hidden]
    return sum(x @ a over hidden * (x @ b over hidden), over wide)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    x = x + two(x) + two(x)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0269-call.mg:4:5: error[MG0269]: 'a' has the elements 0 to 3 of 'ab', and another part 0 to 3
# CHECK: 0269-call.mg:4:5: note: by this parameter
# CHECK: 0269-call.mg:11:22: note: in this call of 'two'
# CHECK: help: give the call a name: two(...) as "..."
# CHECK: 0269-call.mg:5:5: error[MG0269]: 'b' has the elements 4 to 7 of 'ab', and another part 4 to 7
# CHECK-NOT: error[MG
