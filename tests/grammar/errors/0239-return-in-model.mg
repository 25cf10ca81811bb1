# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(x)
    return x
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0239-return-in-model.mg:7:5: error[MG0239]: a model returns nothing
# CHECK: help: assign the loss: loss = ...
# CHECK-NOT: {{error|warning}}[MG
