# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh tp = 1  hiden -> tp }
# CHECK: 0322-rule-dim.mg:9:23: error[MG0322]: a rule for 'hiden', which is neither a dim nor a class of tensors
# CHECK: help: did you mean 'hidden'?
# CHECK-NOT: {{error|warning}}[MG
