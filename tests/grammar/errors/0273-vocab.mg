# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 4294967296, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0273-vocab.mg:3:36: error[MG0273]: 'vocab' is 4294967296; the limit is 2^31 - 2
# CHECK-NOT: {{error|warning}}[MG
