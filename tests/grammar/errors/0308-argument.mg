# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer adamw(beta = (0.9, 0.95))  lr 0.1 }
# CHECK: 0308-argument.mg:8:25: error[MG0308]: 'adamw' has no argument 'beta'
# CHECK: help: did you mean 'betas'?
# CHECK: help: there is: betas, eps, decay
# CHECK-NOT: {{error|warning}}[MG
