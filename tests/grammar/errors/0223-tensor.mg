# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hidden] ~ normal(x)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0223-tensor.mg:6:32: error[MG0223]: this must be a number known at compile time; it is a tensor [batch, seq, hidden]
# CHECK-NOT: {{error|warning}}[MG
