# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x
    repeat vocab {
        y = y + x
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { pad vocab to 16 }
# CHECK: 0237-repeat-padded.mg:7:12: error[MG0237]: 'vocab' is padded: it cannot be repeated over
# CHECK-NOT: {{error|warning}}[MG
