# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x[seq -> hidden]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0216-rename-size.mg:6:15: error[MG0216]: 'seq', which is 4, cannot become 'hidden', which is 3
# CHECK: 0216-rename-size.mg:2:36: note: 'hidden' is declared here
# CHECK: help: `dim t = seq` makes a dim of that size
# CHECK-NOT: {{error|warning}}[MG
