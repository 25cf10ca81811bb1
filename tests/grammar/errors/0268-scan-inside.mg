# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, time = seq
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    clock : param[time, hidden] ~ normal(0.02)
    x = table[tokens]
    scan seq {
        y = clock[time -> seq] + x
    }
    scan seq {
        i = x[seq - 1]
        j = x[seq = 0]
        k = x[seq -> time]
        l = mean(x, over seq)
        m = x @ x over seq
    }
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0268-scan-inside.mg:7:10: error[MG0268]: a scan along 'seq', which [seq, hidden] in it has
# CHECK: 0268-scan-inside.mg:8:18: note: this value
# CHECK: help: compute what has 'seq' before the scan: its body is of one index
# CHECK: 0268-scan-inside.mg:11:15: error[MG0225]: the value has none of these dims
# CHECK: help: a scan reads at its current 'seq', without the dim: shift or sum along it before the scan, under another name
# CHECK: 0268-scan-inside.mg:12:15: error[MG0215]: there is no dim 'seq' to take parts along
# CHECK: help: a scan reads at its current 'seq'
# CHECK: 0268-scan-inside.mg:13:15: error[MG0215]: there is no dim 'seq' to rename
# CHECK: help: a scan reads at its current 'seq'
# CHECK: 0268-scan-inside.mg:14:26: error[MG0215]: 'mean': the value has no dim 'seq'
# CHECK: help: a scan reads at its current 'seq'
# CHECK: 0268-scan-inside.mg:15:24: error[MG0213]: 'seq' cannot be summed: neither side has no such dim
# CHECK: help: a scan reads at its current 'seq'
# CHECK-NOT: {{error|warning}}[MG
