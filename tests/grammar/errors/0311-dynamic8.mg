# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer adafactor(state = dynamic8)  lr 0.1  precision f32 }
# CHECK: 0311-dynamic8.mg:8:37: error[MG0311]: state = dynamic8 of 'adafactor', whose rule sums over a matrix
# CHECK-NOT: {{error|warning}}[MG
