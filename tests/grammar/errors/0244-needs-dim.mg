# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block norm(y[vocab]) {
    return sum(y, over vocab)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(norm(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0244-needs-dim.mg:9:22: error[MG0244]: 'norm' needs dim 'vocab'; this has [batch, seq, hidden]
# CHECK: 0244-needs-dim.mg:3:12: note: declared here
# CHECK-NOT: {{error|warning}}[MG
