# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 12, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { microbatch 5 }
# CHECK: 0326-microbatch.mg:9:21: error[MG0326]: microbatch 5 does not divide 'batch', which is 12
# CHECK: 0326-microbatch.mg:2:5: note: 'batch' is declared here
# CHECK: help: microbatch 4
# CHECK-NOT: {{error|warning}}[MG
