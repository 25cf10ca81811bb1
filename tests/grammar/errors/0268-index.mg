# RUN: not %front check %s 2>&1 | FileCheck %s
# The repeat draws numbers, whose place in the loops was asked of a loop that has no index.
dim row = batch, vocab = 6, batch = 4, seq = 6
model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, row] = 1
    x = embed[tokens]
    y = 0
    scan row {
        repeat vocab {
            y = y + normal(over seq)
        }
        x = x + mean(y)
    }
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0268-index.mg:8:10: error[MG0268]
# CHECK-NOT: internal
