# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x
    repeat deep {
        y = y + x
        z = y
    }
    loss = mean(y) + mean(z)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0201-iteration.mg:12:27: error[MG0201]: unknown name 'z'
# CHECK: 0201-iteration.mg:8:12: note: it belongs to one iteration of this repeat
# CHECK: help: assign 'z' before the repeat, so that it is carried from iteration to iteration
# CHECK-NOT: {{error|warning}}[MG
