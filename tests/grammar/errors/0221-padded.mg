# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens)) + mean(x @ table over hidden)
}
train { optimizer sgd()  lr 0.1 }
layout { pad vocab to 16 }
# CHECK: 0221-padded.mg:6:65: error[MG0221]: 'vocab' is padded from 8 to 16 and summed or compared here
# CHECK: help: only cross_entropy and in_top mask padding: pad no dim that is reduced elsewhere
# CHECK-NOT: {{error|warning}}[MG
