# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = attention(x, x, x, along seq, along seq, over hidden)
    loss = cross_entropy(y @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0259-sequences.mg:6:9: error[MG0259]: queries and keys both along 'seq'
# CHECK: help: write `along seq` once where both are one sequence
# CHECK-NOT: {{error|warning}}[MG
