# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer a(rho = 1) {
    p = p - lr * g * rho
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a() decay 0.1 where vocab  lr 0.1 }
# CHECK: 0302-decay.mg:11:23: error[MG0302]: the rule of 'a' has no decay
# CHECK: help: declare it: `optimizer a(..., decay = 0)`, whose rule reads `decay`
# CHECK-NOT: {{error|warning}}[MG
