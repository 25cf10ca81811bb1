# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer adaw()  lr 0.1 }
# CHECK: 0307-optimizer.mg:8:19: error[MG0307]: there is no optimizer 'adaw'
# CHECK: help: did you mean 'adamw'?
# CHECK: help: there is: adamw, sgd, adam, lion, adafactor, muon
# CHECK-NOT: {{error|warning}}[MG
