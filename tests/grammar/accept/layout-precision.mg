# RUN: %front check %s 2>&1 | FileCheck %s --allow-empty
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { microbatch 1 }
layout auto { device h100 x 2  precision f32, bf16, fp8 }
# CHECK-NOT: {{error|warning}}
