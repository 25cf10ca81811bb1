# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
const a = 5.5 % 2, b = 5 % 0, c = 5 % -2, d = -5 % 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    x = x * d
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0212-remainder.mg:3:15: error[MG0212]: 5.5 % 2 is of integers only
# CHECK: 0212-remainder.mg:3:26: error[MG0212]: 5 % 0 divides by zero
# CHECK: 0212-remainder.mg:3:37: error[MG0212]: 5 % -2 has a remainder of positive numbers only
# CHECK-NOT: {{error|warning}}[MG
