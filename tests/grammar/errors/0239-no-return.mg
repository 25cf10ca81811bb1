# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    y = x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0239-no-return.mg:5:1: error[MG0239]: block 'f' ends without `return`
# CHECK-NOT: {{error|warning}}[MG
