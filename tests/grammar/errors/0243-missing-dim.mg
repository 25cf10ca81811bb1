# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = rope(x, along seq)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0243-missing-dim.mg:6:9: error[MG0243]: 'rope' needs `over d`
# CHECK: prelude.mg:38:31: note: declared here
# CHECK-NOT: {{error|warning}}[MG
