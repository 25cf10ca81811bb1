# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  }
layout { mesh pp = 2, dp = 2  layers -> pp (stages = 2) }
layout list { mesh pp = 2, dp = 2  layers -> pp (chunks = [2]) }
layout twice { mesh pp = 2, dp = 2  layers -> pp (stages = [2, 2], stages = [1, 3]) }
# CHECK: 0324-stages.mg:10:54: error[MG0324]: 'stages' takes a list of numbers of layers: stages = [3, 2]
# CHECK: 0324-stages.mg:11:59: error[MG0324]: 'chunks' takes one value: chunks = 2
# CHECK: 0324-stages.mg:12:68: error[MG0324]: 'stages' is given twice
# CHECK-NOT: {{error|warning}}[MG
