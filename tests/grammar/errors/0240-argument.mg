# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = rope(x, along seq, over hidden, thetta = 100)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0240-argument.mg:6:41: error[MG0240]: 'rope' has no argument 'thetta'
# CHECK: help: did you mean 'theta'?
# CHECK: prelude.mg:38:7: note: 'rope' is declared here
# CHECK-NOT: {{error|warning}}[MG
