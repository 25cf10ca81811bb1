# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr cosine(peak = 1, warmup = 1.5, steps = 10) }
# CHECK: 0303-integer.mg:8:55: error[MG0303]: this is 1.5; an integer of at least 0 is wanted
# CHECK-NOT: {{error|warning}}[MG
