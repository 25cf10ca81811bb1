# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, other = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    gain : param[hidden] = 1 as "norm.weight"
    x = table[tokens] * gain + sum(index(other))
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train {
    optimizer sgd() where vocab
    lr 0.1
    frozen 1 where vocab
    decay 0.1
    rate 0 - 1 where vocab
    frozen where 3
    frozen where sizes
}

# CHECK: 0302-rules.mg:10:27: error[MG0302]: 'optimizer' holds for all parameters
# CHECK: 0302-rules.mg:12:12: error[MG0302]: 'frozen' takes no value
# CHECK: 0302-rules.mg:13:5: error[MG0302]: 'decay' says not for which parameters
# CHECK: 0302-rules.mg:14:10: error[MG0303]: rate is -1; it must be at least 0
# CHECK: 0302-rules.mg:15:18: error[MG0306]: this selects no parameters
# CHECK: 0302-rules.mg:16:18: error[MG0203]: unknown dim 'sizes'
# CHECK-NOT: {{error|warning}}[MG
