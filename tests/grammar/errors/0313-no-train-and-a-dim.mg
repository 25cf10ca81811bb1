# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hiden, next(tokens))
}

# What the model itself has is said in the same turn.
# CHECK: 0313-no-train-and-a-dim.mg:1:1: error[MG0313]: there is no train block
# CHECK: 0313-no-train-and-a-dim.mg:6:41: error[MG0203]: unknown dim 'hiden'
# CHECK: help: did you mean 'hidden'?
# CHECK-NOT: {{error|warning}}[MG
