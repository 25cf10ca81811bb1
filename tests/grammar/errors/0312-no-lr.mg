# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd() }
# CHECK: 0312-no-lr.mg:8:1: error[MG0312]: the train block sets no learning rate
# CHECK: help: lr cosine(peak = 3e-4, warmup = 100, steps = 1000, floor = 3e-5)
# CHECK-NOT: {{error|warning}}[MG
