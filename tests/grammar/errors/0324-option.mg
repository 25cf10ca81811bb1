# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh cp = 1  seq -> cp (zig) }
# CHECK: 0324-option.mg:9:34: error[MG0324]: there is no option of a rule 'zig'
# CHECK: help: there is: zigzag, heads, ring, rows, gather
# CHECK-NOT: {{error|warning}}[MG
