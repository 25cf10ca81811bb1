# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[seq, hidden] = 0
    y = w[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0218-index-dim.mg:7:11: error[MG0218]: this indexes 'vocab', which the table [seq, hidden] does not have
# CHECK-NOT: {{error|warning}}[MG
