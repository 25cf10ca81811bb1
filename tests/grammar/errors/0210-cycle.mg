# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = b + 1, b = a
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0210-cycle.mg:2:5: error[MG0210]: 'a' is defined by itself
# CHECK-NOT: {{error|warning}}[MG
