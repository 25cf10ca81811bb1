# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[x] = 0
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0204-not-a-dim.mg:6:15: error[MG0204]: 'x' is a value, not a dim
# CHECK: 0204-not-a-dim.mg:5:5: note: declared here
# CHECK-NOT: {{error|warning}}[MG
