# -D changes dims, constants and axes; its value is an expression; the last one wins.
# RUN: %front ir %s -D hidden=2*k -D k=5 -D tp=1 -D seq=3 -D seq=7 | FileCheck %s
const k = 3
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    x = x * k
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh tp = 1
}
# CHECK: # model m: batch 2, seq 7, vocab 8
# CHECK: tensor "table" f32[vocab=8, hidden=10]
# CHECK: const {value=5}
