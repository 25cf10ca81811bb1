# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(t : token(seq)) {
    return index(t)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0246-other-dim.mg:9:19: error[MG0246]: 'f' wants indices of 'seq' here
# CHECK: help: these are of 'vocab'
# CHECK-NOT: {{error|warning}}[MG
