# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens] / (wide - hidden)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0212-tensor-zero.mg:5:23: error[MG0212]: {{.*}}[batch, seq, hidden] / 0 divides by zero
# CHECK-NOT: {{error|warning}}[MG
