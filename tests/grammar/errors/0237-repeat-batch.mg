# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x
    repeat batch {
        y = y + x
    }
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0237-repeat-batch.mg:7:12: error[MG0237]: a repeat over the batch
# CHECK-NOT: {{error|warning}}[MG
