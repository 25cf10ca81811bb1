# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(pick(x, along (seq, hidden), at = 0))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0241-along.mg:6:25: error[MG0241]: 'pick' takes one dim
# CHECK: help: its use is pick(x, along d, at = k)
# CHECK-NOT: {{error|warning}}[MG
