# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    return x
    y = x
    return y
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0239-return-early.mg:4:5: error[MG0239]: statements after return
# CHECK-NOT: {{error|warning}}[MG
