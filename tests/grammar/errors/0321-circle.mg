# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout a : b { device cpu }
layout b : a { device cpu }
# CHECK: 0321-circle.mg:10:8: error[MG0321]: layout 'b' extends itself, or more than 16 others
# CHECK-NOT: {{error|warning}}[MG
