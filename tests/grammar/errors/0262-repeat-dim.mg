# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x
    repeat deep {
        w : param[deep, hidden] = 0
        y = y + w
    }
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0262-repeat-dim.mg:9:9: error[MG0262]: dim 'deep' is the repeat around 'w'
# CHECK: help: each iteration has a 'w' of its own: leave the dim out
# CHECK-NOT: {{error|warning}}[MG
