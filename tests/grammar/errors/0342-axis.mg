# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  }
layout { mesh pp = 2, dp = 2  layers -> pp state -> pp }
# CHECK: 0342-axis.mg:10:44: error[MG0342]: 'state' is split on the axis of a pipeline
# CHECK: 0342-axis.mg:10:31: note: whose stages have different layers
# CHECK-NOT: {{error|warning}}[MG
