# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = 0
    repeat deep {
        y = y + x
    }
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0235-carried-dims.mg:8:12: error[MG0235]: 'y' is [] before this repeat and [batch, seq, hidden] after an iteration
# CHECK: help: what a repeat carries keeps its dims
# CHECK-NOT: {{error|warning}}[MG
