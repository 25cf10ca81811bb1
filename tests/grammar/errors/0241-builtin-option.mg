# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = dropout(x, q = 0.1)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0241-builtin-option.mg:6:20: error[MG0241]: 'dropout' has no argument 'q'
# CHECK: help: its use is dropout(x, p = 0.1)
# CHECK-NOT: {{error|warning}}[MG
