# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = rope(x, along seq, over hidden)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0252-rope.mg:6:9: error[MG0252]: 'hidden' is 3, which has no halves
# CHECK: prelude.mg:43:44: note: in the definition of 'rope'
# CHECK-NOT: {{error|warning}}[MG
