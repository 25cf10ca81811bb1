# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  lr 0.2 }
# CHECK: 0302-twice.mg:8:34: error[MG0302]: 'lr' is set twice
# CHECK: 0302-twice.mg:8:26: note: here first
# CHECK-NOT: {{error|warning}}[MG
