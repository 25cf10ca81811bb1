# RUN: %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  }
layout { mesh pp = 1, dp = 2  layers -> pp (schedule = 1f1b, pairs = all)  batch -> dp }
# CHECK: 0341-pairs-of-one.mg:10:62: warning[MG0341]: 'pairs = all' says nothing here: 'pp' has one rank, and a forward is beside the backward of another microbatch in pipelines of two and more
# CHECK-NOT: {{error|warning}}[MG
