# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, ffn = 5
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    w     : param[hidden, ffn] ~ normal(0.02)
    v     : param[ffn, vocab] ~ normal(0.02)
    x = table[tokens] @ w over hidden
    y = x / (1 + x * x)
    z = x / sqrt(mean(x * x, over seq))
    loss = cross_entropy((y + z) @ v over ffn, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { pad ffn to 8 }
# CHECK: 0221-padded.mg:9:13: error[MG0221]: 'ffn' is padded from 5 to 8, and what this is of may be 0 in the padding
# CHECK: help: add a number above 0 to what is not below 0: sqrt(x * x + 1e-6)
# CHECK-NOT: {{error|warning}}[MG
