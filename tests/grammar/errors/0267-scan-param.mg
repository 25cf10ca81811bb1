# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block scaled(x[hidden]) {
    gain : param[hidden] = 1
    return x * gain
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    h = expand(0, over (batch, hidden))
    scan seq {
        w : param[hidden] = 1
        h = h * w + scaled(x)
    }
    loss = mean(h)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0267-scan-param.mg:12:9: error[MG0267]: parameter 'w' is declared in a scan over 'seq'
# CHECK: help: declare it before the scan, or before the block that has the scan is called
# CHECK: 0267-scan-param.mg:4:5: error[MG0267]: parameter 'gain' is declared in a scan over 'seq'
# CHECK-NOT: {{error|warning}}[MG
