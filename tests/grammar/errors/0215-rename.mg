# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    dim t = vocab
    y = x[vocab -> t]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0215-rename.mg:7:11: error[MG0215]: there is no dim 'vocab' to rename
# CHECK: help: the dims are [batch, seq, hidden]
# CHECK-NOT: {{error|warning}}[MG
