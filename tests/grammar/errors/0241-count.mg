# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = rmsnorm(x, 1, 2, over hidden, eps = 1e-5)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0241-count.mg:6:9: error[MG0241]: 'rmsnorm' takes 2 values; 3 are given
# CHECK: prelude.mg:28:7: note: 'rmsnorm' is declared here
# CHECK-NOT: {{error|warning}}[MG
