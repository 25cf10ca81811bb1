# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hidden] ~ norml(0.02)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0260-distribution.mg:6:25: error[MG0260]: there is no distribution 'norml'
# CHECK: help: did you mean 'normal'?
# CHECK: help: write `~ normal(std)` or `~ uniform(a, b)`
# CHECK-NOT: {{error|warning}}[MG
