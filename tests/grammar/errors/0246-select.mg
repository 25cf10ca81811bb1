# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[select(index(seq) < 2, tokens, top(table[tokens], hidden -> best))]
    y = table[select(index(seq) < 2, tokens, 8)]
    z = table[select(index(seq) < 2, 0.5, tokens)]
    w = select(index(seq) < 2, tokens, index(seq) < 1)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
dim best = 1
train { optimizer sgd()  lr 0.1 }
# CHECK: 0246-select.mg:5:46: error[MG0246]: select: the other side has indices of 'vocab'
# CHECK: 0246-select.mg:6:46: error[MG0251]: index 8 of dim 'vocab', which has 8
# CHECK: 0246-select.mg:7:38: error[MG0251]: index 0.5 of dim 'vocab', which has 8
# CHECK: 0246-select.mg:8:40: error[MG0246]: select: the other side has indices of 'vocab'
# CHECK-NOT: {{error|warning}}[MG
