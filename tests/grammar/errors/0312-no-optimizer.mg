# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { lr 0.1 }
# CHECK: 0312-no-optimizer.mg:8:1: error[MG0312]: the train block sets no optimizer
# CHECK: help: optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
# CHECK-NOT: {{error|warning}}[MG
