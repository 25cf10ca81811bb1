# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { microbach 2 }
# CHECK: 0301-layout-setting.mg:9:10: error[MG0301]: there is no setting 'microbach'
# CHECK: help: did you mean 'microbatch'?
# CHECK: help: there is: device, mesh, microbatch, recompute, chunk, assert, pad
# CHECK-NOT: {{error|warning}}[MG
