# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(x)
    metric each = x
    metric five = 2 + 3
    metric first = pick(pick(tokens, along seq, at = 0), along batch, at = 0)
    metric loss = mean(x)
    metric x = mean(x)
    repeat layers {
        x = x + 1
        metric inside = mean(x)
    }
    metric nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn = mean(x)
    metric size = mean(x)
    size = 3
    size, other = x
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0277-metric.mg:7:12: error[MG0277]: metric 'each' must be one number; this is [batch, seq, hidden]
# CHECK: help: metric each = mean(
# CHECK: 0277-metric.mg:8:12: error[MG0277]: metric 'five' is the number 5: it depends on no data
# CHECK: 0277-metric.mg:9:12: error[MG0277]: metric 'first' must be one number; this is indices or a condition
# CHECK: 0277-metric.mg:10:12: error[MG0277]: the loss is no metric: it is reported anyway
# CHECK: 0277-metric.mg:11:12: error[MG0202]: 'x' is the name of a value already
# CHECK: 0277-metric.mg:14:16: error[MG0277]: a metric inside of a repeat
# CHECK: help: metric NAME = expression is a statement of the model: assign
# CHECK: 0277-metric.mg:16:12: error[MG0277]: the name of a metric has at most 64 bytes
# CHECK: 0277-metric.mg:18:5: error[MG0277]: metric 'size' cannot be assigned
# CHECK: 0277-metric.mg:17:12: note: it is named here
