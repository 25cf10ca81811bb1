# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { pad vocab }
# CHECK: 0330-pad-what.mg:9:14: error[MG0330]: pad takes a dim and its size
# CHECK: help: pad vocab to 50304
# CHECK-NOT: {{error|warning}}[MG
