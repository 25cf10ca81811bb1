# RUN: %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { microbatch 5 }
# CHECK: 0331-microbatch.mg:9:21: warning[MG0331]: microbatch 5 is more than 'batch': all 2 are computed at once
# CHECK-NOT: {{error|warning}}[MG
