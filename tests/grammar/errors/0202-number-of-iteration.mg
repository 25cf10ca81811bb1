# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers at hidden {
        x = x * 2
    }
    l = 2
    repeat layers at l {
        x = x * l
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0202-number-of-iteration.mg:6:22: error[MG0202]: 'hidden' is the name of a dim already
# CHECK: 0202-number-of-iteration.mg:10:22: error[MG0202]: 'l' is the name of a value already
# CHECK-NOT: {{error|warning}}[MG
