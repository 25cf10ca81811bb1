# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer adamw(state = dynamic8(most = 3))  lr 0.1  precision f32 }
# CHECK: 0308-dynamic8.mg:8:42: error[MG0308]: 'dynamic8' has no argument 'most'
# CHECK-NOT: {{error|warning}}[MG
