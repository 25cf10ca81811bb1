# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = 4611686018427387904, b = a * 2
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0212-overflow.mg:2:36: error[MG0212]: 4611686018427387904 * 2 overflows
# CHECK-NOT: {{error|warning}}[MG
