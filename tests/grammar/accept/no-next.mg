# Without next(...) the input is the window itself, and nothing can be sampled.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, tokens)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @train
# CHECK: arg %tokens: i32[batch=2, seq=4](vocab)
# CHECK-NOT: window
# CHECK-NOT: fn @sample
