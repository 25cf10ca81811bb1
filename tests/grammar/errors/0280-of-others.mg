# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    w : param[vocab, hidden] = 0
    x = w[tokens] + 0 * document_start(next(tokens), along seq)
    loss = cross_entropy(x @ w over hidden, next(tokens), weight)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0280-of-others.mg:5:25: error[MG0280]: without a separator, document_start is of the model's tokens along their sequence
# CHECK: help: of others write `separator = n`: the token n is the last one of a document
# CHECK-NOT: {{error|warning}}[MG
