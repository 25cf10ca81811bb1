# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    return x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = f * 2
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0201-block-as-value.mg:9:9: error[MG0201]: unknown name 'f'
# CHECK: help: 'f' is a block: write `f(...)`
# CHECK-NOT: {{error|warning}}[MG
