# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, other = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    gain : param[hidden] = 1 as "norm.weight"
    x = table[tokens] * gain + sum(index(other))
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    frozen where "*"
}

# CHECK: 0315-frozen.mg:12:5: error[MG0315]: all parameters are frozen: there is nothing to train
# CHECK-NOT: {{error|warning}}[MG
