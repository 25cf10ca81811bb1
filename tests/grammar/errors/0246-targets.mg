# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x, x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0246-targets.mg:6:29: error[MG0246]: 'cross_entropy' wants indices of a dim here
# CHECK: help: as the tokens of a model are, or next(...) of them
# CHECK-NOT: {{error|warning}}[MG
