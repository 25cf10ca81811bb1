# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    h = expand(0, over (batch, hidden))
    scan deep {
        h = h * 0.5
    }
    scan batch {
        h = h * 0.5
    }
    scan seq backward {
        h = h * 0.5 + x
    }
    scan seq {
        scan seq {
            h = h * 0.5 + x
        }
    }
    scan tokens {
        h = h * 0.5
    }
    loss = mean(h)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0266-scan.mg:7:10: error[MG0266]: nothing that is read in this scan has the dim 'deep'
# CHECK: help: `repeat` runs a body as often as a dim says
# CHECK: 0266-scan.mg:10:10: error[MG0266]: a scan over the batch
# CHECK: 0266-scan.mg:13:14: error[MG0266]: a scan has no option 'backward'
# CHECK: help: `reverse` runs it from the last index to the first
# CHECK: 0266-scan.mg:17:14: error[MG0266]: a scan over 'seq' inside another
# CHECK: 0266-scan.mg:21:10: error[MG0204]: 'tokens' is a value, not a dim
# CHECK-NOT: {{error|warning}}[MG
