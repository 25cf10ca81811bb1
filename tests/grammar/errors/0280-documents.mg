# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    w : param[vocab, hidden] = 0
    x = w[tokens] + 0 * document_start(tokens, along seq)
    loss = cross_entropy(x @ w over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0280-documents.mg:5:25: error[MG0280]: the model takes no weights, so that the last token of a document would have the next document's first one as its target
# CHECK: help: take weight[batch, seq] beside the tokens
# CHECK-NOT: {{error|warning}}[MG
