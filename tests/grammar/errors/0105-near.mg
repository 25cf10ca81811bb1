# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repaet layers {
        x = 2 * x
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0105-near.mg:6:12: error[MG0105]: expected ':', ',' or '=', found 'layers'
# CHECK: help: did you mean 'repeat'?
# CHECK-NOT: {{error|warning}}[MG
