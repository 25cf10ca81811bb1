# A rule of a train block is for the parameters that follow its loss.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    x = table[tokens]
    other = mean(x @ head over hidden)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  decay 0 where "head" }
train other where "head", "tail*" { optimizer sgd()  lr 0.1  rate 2 where "table"  frozen where vocab }
# CHECK: 0315-of-a-loss.mg:11:48: error[MG0315]: this names no parameter that follows 'loss'
# CHECK: 0315-of-a-loss.mg:12:27: error[MG0315]: this names no parameter of the model
# CHECK: 0315-of-a-loss.mg:12:75: error[MG0315]: this names no parameter that follows 'other'
# CHECK: 0315-of-a-loss.mg:12:7: error[MG0315]: all parameters that follow 'other' are frozen
# CHECK-NOT: {{error|warning}}[MG
