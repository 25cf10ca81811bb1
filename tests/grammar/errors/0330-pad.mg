# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { pad vocab to 7 }
# CHECK: 0330-pad.mg:9:23: error[MG0330]: 'vocab' is 8 and cannot be padded to 7
# CHECK-NOT: {{error|warning}}[MG
