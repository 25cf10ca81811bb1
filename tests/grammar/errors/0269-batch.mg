# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 4, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    p : param[hidden] = 1 as "pq" [hidden at 0]
    q : param[hidden] = 1 as "pq" [hidden at batch]
    x = table[tokens] * p * q
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { device cpu  microbatch 2 }
# CHECK: 0269-batch.mg:6:46: error[MG0269]: the place of 'q' depends on how many sequences are computed at once
# CHECK-NOT: error[MG
