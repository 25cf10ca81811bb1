# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4611686018427387904
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0220-elements.mg:4:5: error[MG0220]: a tensor of more than 2^59 elements: [vocab=8, hidden=4611686018427387904]
# CHECK-NOT: {{error|warning}}[MG
