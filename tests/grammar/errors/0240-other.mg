# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = attention(x, x, x, along seq, over hidden, bias = index(seq))
    loss = cross_entropy(y @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0240-other.mg:6:52: error[MG0240]: 'attention' has no argument 'bias'
# CHECK: help: the 'attention' of 3 values and 2 `along` has it
# CHECK-NOT: {{error|warning}}[MG
