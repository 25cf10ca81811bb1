# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  }
layout { mesh pp = 2, dp = 2  layers -> pp (schedule = "own.txt") }
# CHECK: 0324-table.mg:10:56: error[MG0324]: there is no schedule 'own.txt'
# CHECK: help: a table of one is a file of the name "....csv": mgc pipeline writes them
# CHECK-NOT: {{error|warning}}[MG
