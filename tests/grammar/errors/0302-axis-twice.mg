# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh dp = 1, dp = 1 }
# CHECK: 0302-axis-twice.mg:9:23: error[MG0302]: axis 'dp' is listed twice
# CHECK-NOT: {{error|warning}}[MG
