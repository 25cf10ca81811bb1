# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer adamw(betas = 0.9)  lr 0.1 }
# CHECK: 0303-betas.mg:8:33: error[MG0303]: betas are two numbers
# CHECK: help: betas = (0.9, 0.95)
# CHECK-NOT: {{error|warning}}[MG
