# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh cp = 1  seq -> cp (ring, heads) }
layout other { mesh cp = 1  seq -> cp (heads, zigzag) }
layout value { mesh cp = 1  seq -> cp (heads = 2) }
# CHECK: 0347-ways.mg:9:34: error[MG0347]: 'ring' beside 'heads': keys go round a ring, or heads are exchanged
# CHECK: help: cp (heads)
# CHECK: help: cp (ring)
# CHECK: 0347-ways.mg:10:47: error[MG0347]: 'zigzag' beside 'heads': with its heads a rank has whole sequences, in their order
# CHECK: help: cp (heads)
# CHECK: help: cp (zigzag)
# CHECK: 0347-ways.mg:11:40: error[MG0324]: 'heads' takes no value
# CHECK-NOT: {{error|warning}}[MG
