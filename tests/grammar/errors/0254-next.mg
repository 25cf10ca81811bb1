# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0254-next.mg:6:54: error[MG0254]: next takes the token input of the model itself
# CHECK-NOT: {{error|warning}}[MG
