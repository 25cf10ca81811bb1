# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    loss = cross_entropy(table[tokens] @ table over hidden, next(tokens))
}
train { optimizer adamw()  lr 0.1  }
layout { mesh dp = 2  batch -> dp  offload state -> host }
# CHECK: 0346-ranks.mg:8:36: error[MG0346]: offload is built for one rank, and this layout has a mesh of several
# CHECK-NOT: {{error|warning}}[MG
