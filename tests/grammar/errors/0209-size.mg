# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = 4096, b = a - 5000
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0209-size.mg:2:19: error[MG0209]: dim 'b' would be -904; a dim is from 1 to 2^62
# CHECK-NOT: {{error|warning}}[MG
