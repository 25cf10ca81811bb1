# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh 4 }
# CHECK: 0302-mesh.mg:9:15: error[MG0302]: a mesh is a list of axes: mesh dp = 1, tp = 1
# CHECK-NOT: {{error|warning}}[MG
