# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision f32 (reduce = trees) }
layout {
    microbatch 2
}
# CHECK: 0307-reduce.mg:8:58: error[MG0307]: {{.*}}'trees'
# CHECK: help: did you mean 'tree'?
# CHECK-NOT: {{error|warning}}[MG
