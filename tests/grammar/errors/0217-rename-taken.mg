# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim other = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x[seq -> other]
    z = y * x
    w = z[other -> seq]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0217-rename-taken.mg:9:20: error[MG0217]: there is a dim 'seq' already: the dims are [batch, other, hidden, seq]
# CHECK-NOT: {{error|warning}}[MG
