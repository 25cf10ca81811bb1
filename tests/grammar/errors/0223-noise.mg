# RUN: not %front check %s 2>&1 | FileCheck %s
dim n = 4
const a = step(), b = 2 * uniform(over n)
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0223-noise.mg:3:11: error[MG0223]: 'step' is a tensor; a number is wanted here
# CHECK: 0223-noise.mg:3:27: error[MG0223]: 'uniform' is a tensor; a number is wanted here
# CHECK-NOT: {{error|warning}}[MG
