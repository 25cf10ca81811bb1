# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 7, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens] @ (normal(over (hidden, vocab))) over hidden
    loss = cross_entropy(x, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { pad vocab to 8 }
# CHECK: 0221-noise.mg:5:{{[0-9]+}}: error[MG0221]
# CHECK-NOT: {{error|warning}}[MG
