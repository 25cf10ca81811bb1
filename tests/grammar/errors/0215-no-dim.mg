# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = softmax(x, over vocab)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0215-no-dim.mg:6:9: error[MG0215]: 'max': the value has no dim 'vocab'
# CHECK: prelude.mg:24:29: note: in the definition of 'softmax'
# CHECK: prelude.mg:24:21: note: its dims are [batch, seq, hidden]
# CHECK-NOT: {{error|warning}}[MG
