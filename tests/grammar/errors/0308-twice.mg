# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer adamw(eps = 1e-8, eps = 1e-9)  lr 0.1 }
# CHECK: 0308-twice.mg:8:37: error[MG0308]: 'eps' is given twice
# CHECK-NOT: {{error|warning}}[MG
