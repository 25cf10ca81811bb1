# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, other = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    gain : param[hidden] = 1 as "norm.weight"
    x = table[tokens] * gain + sum(index(other))
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train {
    optimizer sgd(decay = 0.1 where rank >= 3)
    lr 0.1
    decay 0 where "*.bias", hidden, other
    rate 0.5 where rank > 2
}

# CHECK: 0315-nothing.mg:12:19: error[MG0315]: this names no parameter of the model
# CHECK: 0315-nothing.mg:12:37: error[MG0315]: this names no parameter of the model
# CHECK: 0315-nothing.mg:13:20: error[MG0315]: this names no parameter of the model
# CHECK-NOT: {{error|warning}}[MG
