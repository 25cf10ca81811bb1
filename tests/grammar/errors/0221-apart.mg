# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 6
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = rope(table[tokens], along seq, over hidden, theta = 10000)
    y = dropout(table[tokens], p = 0.1)
    loss = cross_entropy((x + y) @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { pad hidden to 8 }
# CHECK: 0221-apart.mg:5:9: error[MG0221]: 'hidden' is padded from 6 to 8, and its elements are told apart here
# CHECK: help: padding is left out of sums, maxima and products: pad no dim that is cut, shifted, turned or chosen from
# CHECK: 0221-apart.mg:6:9: error[MG0221]: 'hidden' is padded from 6 to 8, and its elements are told apart here
# CHECK-NOT: {{error|warning}}[MG
