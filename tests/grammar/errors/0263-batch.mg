# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[batch, hidden] = 0
    loss = mean(x * w)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0263-batch.mg:6:5: error[MG0263]: a parameter cannot have the batch dim 'batch'
# CHECK-NOT: {{error|warning}}[MG
