# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = dropout(x, p = 1)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0253-dropout.mg:6:24: error[MG0253]: p = 1; the share that is dropped is at least 0 and below 1
# CHECK-NOT: {{error|warning}}[MG
