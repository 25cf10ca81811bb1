# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, width = 3
block scaled(x, width) { return x * sum(width, over hidden) }
model m(tokens[batch, seq] : token(vocab)) {
    hidden : param[vocab, hidden] ~ normal(0.02)
    seq : param[hidden] ~ normal(0.02)
    table : param[vocab, hidden] ~ normal(0.02)
    gain : param[hidden] ~ normal(0.02)
    x = hidden[tokens] * (seq @ seq over hidden)
    y = scaled(table[tokens], gain)
    loss = cross_entropy((x + y) @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# A name that was refused is not taken for the dim, a number, where it is read.
# CHECK: 0202-parameter-is-dim.mg:5:5: error[MG0202]: 'hidden' is the name of a dim already
# CHECK: 0202-parameter-is-dim.mg:2:36: note: declared here
# CHECK: 0202-parameter-is-dim.mg:6:5: error[MG0202]: 'seq' is the name of a dim already
# CHECK: 0202-parameter-is-dim.mg:3:17: error[MG0202]: 'width' is the name of a dim already
# CHECK-NOT: {{error|warning}}[MG
