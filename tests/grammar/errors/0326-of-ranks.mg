# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 16, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout {
    mesh dp = 2
    batch -> dp
    microbatch 3
}
# CHECK: 0326-of-ranks.mg:12:16: error[MG0326]: microbatch 3 does not divide 'batch', which is 8
# CHECK: 0326-of-ranks.mg:2:5: note: 'batch' is declared here
# CHECK: help: microbatch 2
# CHECK-NOT: {{error|warning}}[MG
