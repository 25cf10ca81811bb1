# A parameter follows one loss.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    x = table[tokens]
    aside = mean(x @ head over hidden)
    other = mean(x * x)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
train other where "head" { optimizer sgd()  lr 0.1 }
train aside where hidden { optimizer sgd()  lr 0.1 }
# CHECK: 0317-parameters.mg:6:5: error[MG0317]: 'head' is to follow two losses: 'other' and 'aside'
# CHECK: 0317-parameters.mg:13:19: note: the parameters of the one
# CHECK: 0317-parameters.mg:14:19: note: and those of the other
