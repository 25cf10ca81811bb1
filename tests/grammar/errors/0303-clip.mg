# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  clip 0 }
# CHECK: 0303-clip.mg:8:39: error[MG0303]: clip is 0; it must be above 0
# CHECK-NOT: {{error|warning}}[MG
