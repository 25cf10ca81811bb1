# A value that is given by name has the dims that its block asks for.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block far(x, far[seq] = 0) {
    return x + far
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    w : param[hidden] ~ normal(0.02)
    x = far(far(table[tokens]), far = index(seq))
    x = far(x, far = 2)
    x = far(x, far = w)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0244-option.mg:12:{{[0-9]*}}: error[MG0244]: 'far' needs dim 'seq'; this has [hidden]
# CHECK: note: declared here
# CHECK-NOT: {{error|warning}}[MG
