# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f32 (reduce = tree) }
layout { mesh pp = 2, dp = 2  layers -> pp }
# CHECK: 0342-tree.mg:10:31: error[MG0342]: reduce = tree does not go with a pipeline
# CHECK: help: without reduce = tree{{$}}
# CHECK-NOT: {{error|warning}}[MG
