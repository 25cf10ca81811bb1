# RUN: not %front check %s 2>&1 | FileCheck %s
block exp(x) {
    return x
}
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0202-builtin.mg:2:7: error[MG0202]: 'exp' is a function of the language
# CHECK: help: choose another name
# CHECK-NOT: {{error|warning}}[MG
