# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { mesh ep = 1  hidden -> ep (rows, gather) }
layout other { mesh ep = 1  hidden -> ep (rows, zigzag) }
layout less { mesh ep = 1  hidden -> ep (rows, bound = 0.5) }
layout none { mesh ep = 1  hidden -> ep (bound = 2) }
layout value { mesh ep = 1  hidden -> ep (rows = 2) }
layout word { mesh ep = 1  hidden -> ep (rows, bound) }
layout both { mesh ep = 1  hidden -> ep (rows, once) }
layout twice { mesh ep = 1  hidden -> ep (once, zigzag) }
# CHECK: 0348-rows.mg:9:43: error[MG0348]: 'gather' beside 'rows': rows are sent to experts' matrices, or these are gathered
# CHECK: help: without 'gather'
# CHECK: 0348-rows.mg:10:49: error[MG0348]: 'zigzag' beside 'rows': that is for the dim of experts, which lie in their order
# CHECK: help: without 'zigzag'
# CHECK: 0348-rows.mg:11:56: error[MG0348]: bound = 0.5: a rank would take 0.5 of each 1 row that it is sent where all experts are used alike
# CHECK: help: 1.25 takes a quarter more than the mean; without a bound no row is dropped
# CHECK: 0348-rows.mg:12:42: error[MG0348]: a bound of what is not sent: rows are, with the word 'rows'
# CHECK: 0348-rows.mg:13:43: error[MG0324]: 'rows' takes no value
# CHECK: 0348-rows.mg:14:48: error[MG0324]: 'bound' needs a value: bound = 1.5
# CHECK: 0348-rows.mg:15:48: error[MG0348]: 'once' beside 'rows': along an axis rows are sent to each expert, or once to all peers
# CHECK: help: without 'once'
# CHECK: 0348-rows.mg:16:49: error[MG0348]: 'zigzag' beside 'once': that is for the dim of experts, which lie in their order
# CHECK-NOT: {{error|warning}}[MG
