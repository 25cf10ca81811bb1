# RUN: not %front check %s 2>&1 | FileCheck %s
const a = relu(3)
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0223-constant.mg:2:11: error[MG0223]: a block cannot be called outside of a model
# CHECK-NOT: {{error|warning}}[MG
