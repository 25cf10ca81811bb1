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
train other where "head" { optimizer sgd()  lr 0.1  precision f64  update as_ready }
train aside where hidden { optimizer sgd()  lr 0.1 }
train loss where "table" { optimizer sgd()  lr 0.1 }
train lr where "table" { optimizer sgd()  lr 0.1 }
train a_lr where "table" { optimizer sgd()  lr 0.1 }
train other where "table" { optimizer sgd()  lr 0.1 }
# CHECK: 0317-losses.mg:12:53: error[MG0317]: 'precision' is the same for all losses
# CHECK: help: set it in the train block without a name, not in that of 'other'
# CHECK: 0317-losses.mg:12:68: error[MG0317]: 'update' is the same for all losses
# CHECK: 0317-losses.mg:14:7: error[MG0317]: the parameters of `loss` are those that no other loss has
# CHECK: 0317-losses.mg:15:7: error[MG0317]: 'lr' is something else in metrics.jsonl: choose another name
# CHECK: 0317-losses.mg:16:7: error[MG0317]: 'a_lr' is something else in metrics.jsonl
# CHECK: 0317-losses.mg:17:7: error[MG0313]: a second train block of 'other'
# CHECK: 0317-losses.mg:12:7: note: the first one
# CHECK-NOT: {{error|warning}}[MG
