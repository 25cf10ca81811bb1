# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision fp8 (reduce = tree) }
# CHECK: 0311-tree.mg:8:49: error[MG0311]: reduce = tree beside precision fp8, whose scales are of all sequences that ranks compute at once
# CHECK: help: precision bf16(reduce = tree)
# CHECK-NOT: {{error|warning}}[MG
