# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    more  : param[hidden]        ~ normal(0.02)
    some  : param[hidden]        ~ normal(0.02)
    x = table[tokens] + more + some
    y = x * x
    one = 1
    loss = cross_entropy(x @ head over hidden, next(tokens))
    metric seen = mean(y)
}
train { optimizer sgd()  lr 0.1 }
train y where "head" { optimizer sgd()  lr 0.1 }
train one where "more" { optimizer sgd()  lr 0.1 }
train seen where "some" { optimizer sgd()  lr 0.1 }
# CHECK: 0271-other.mg:15:7: error[MG0271]: a loss must be one number; 'y' is [batch, seq, hidden]
# CHECK: 0271-other.mg:9:5: note: assigned here
# CHECK: help: y = mean(...)
# CHECK: 0271-other.mg:16:7: error[MG0271]: 'one' is a number: it depends on no parameter
# CHECK: 0271-other.mg:17:7: error[MG0271]: 'seen' is a metric, and no loss
# CHECK: 0271-other.mg:12:12: note: it is named here
# CHECK-NOT: {{error|warning}}[MG
