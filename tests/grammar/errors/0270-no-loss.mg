# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0270-no-loss.mg:3:7: error[MG0270]: model 'm' assigns no loss
# CHECK: help: loss = cross_entropy(logits, next(tokens))
# CHECK-NOT: {{error|warning}}[MG
