# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd(), adamw()  lr 0.1 }
# CHECK: 0302-one-value.mg:8:9: error[MG0302]: 'optimizer' takes one value
# CHECK-NOT: {{error|warning}}[MG
