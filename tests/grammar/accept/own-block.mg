# A block of the file comes before one of the prelude with its name.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
block relu(x) {
    return sin(x)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    x = relu(x)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: = sin %x
# CHECK-NOT: max
