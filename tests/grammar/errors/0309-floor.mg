# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr cosine(peak = 0.1, steps = 10, floor = 1) }
# CHECK: 0309-floor.mg:8:60: error[MG0309]: floor 1 is above peak 0.1
# CHECK-NOT: {{error|warning}}[MG
