# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    x = table[tokens]
    other = mean(x * x)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
train other where "*" { optimizer sgd()  lr 0.1 }
# CHECK: 0317-none-left.mg:11:7: error[MG0317]: no parameter is left for `loss`: others follow all of them
# CHECK-NOT: {{error|warning}}[MG
