# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr cosine(peak = 0.1, steps = 10, warmup = 20) }
# CHECK: 0309-warmup.mg:8:60: error[MG0309]: warmup 20 is longer than all 10 steps
# CHECK-NOT: {{error|warning}}[MG
