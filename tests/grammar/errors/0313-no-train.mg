# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}

# CHECK: 0313-no-train.mg:1:1: error[MG0313]: there is no train block
# CHECK: help: train { optimizer adamw()  lr 3e-4 }
# CHECK-NOT: {{error|warning}}[MG
