# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh dp = 1, tp = 1  hidden -> tpp }
# CHECK: 0323-rule-axis.mg:9:41: error[MG0323]: the mesh has no axis 'tpp'
# CHECK: help: did you mean 'tp'?
# CHECK-NOT: {{error|warning}}[MG
