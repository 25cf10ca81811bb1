# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    h = 0
    scan seq {
        h = h * 0.5 + x
    }
    loss = mean(h)
    scan seq {
    }
    y = expand(x, over hidden)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0235-scan.mg:7:10: error[MG0235]: 'h' is [] before this scan and [batch, hidden] after an iteration
# CHECK: help: what a scan carries keeps its dims
# CHECK: 0235-scan.mg:11:10: error[MG0238]: this scan assigns nothing
# CHECK: 0235-scan.mg:13:24: error[MG0217]: 'expand': the value has the dim 'hidden'
# CHECK-NOT: {{error|warning}}[MG
