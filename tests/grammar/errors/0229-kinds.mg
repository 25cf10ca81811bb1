# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 300, more = 1025
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers at l {
        x = x * select(l % 2 == 0, 1 / (l + 1), 2)
    }
    repeat more at k {
        x = x * select(k == 0, 0.5, 1)
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0229-kinds.mg:6:22: error[MG0229]: the body of this repeat would be written 300 times; the limit is 256
# CHECK: 0229-kinds.mg:7:17: note: iterations are of one kind where this is equal
# CHECK: 0229-kinds.mg:9:20: error[MG0229]: 1025 iterations with a number; the limit is 1024
# CHECK: help: index(more) is a tensor of the numbers
