# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    table = x
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0233-assigned-parameter.mg:6:5: error[MG0233]: parameter 'table' cannot be assigned
# CHECK: 0233-assigned-parameter.mg:4:5: note: declared here
# CHECK-NOT: {{error|warning}}[MG
