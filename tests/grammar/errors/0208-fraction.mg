# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = 4096, b = a / 3
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0208-fraction.mg:2:19: error[MG0208]: dim 'b' would be 1365.33, which is not an integer
# CHECK-NOT: {{error|warning}}[MG
