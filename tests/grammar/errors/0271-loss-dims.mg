# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = x
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0271-loss-dims.mg:6:5: error[MG0271]: the loss must be one number; this is [batch, seq, hidden]
# CHECK: help: loss = mean(...)
# CHECK-NOT: {{error|warning}}[MG
