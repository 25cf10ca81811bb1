# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, other = hidden, time = seq
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    clock : param[time, hidden] ~ normal(0.02)
    x = table[tokens]
    h = expand(0, over (batch, hidden))
    scan seq {
        x = x + h
    }
    scan seq {
        y = clock[time -> seq] + x
    }
    scan seq {
        k = x[seq - 1] + x[seq = 0] + x[seq -> time]
    }
    scan seq {
        l = mean(x, over seq) + (x @ clock[time -> seq] over seq)
    }
    loss = mean(h)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0268-scan-dim.mg:8:10: error[MG0268]: 'x', which this scan changes, is [batch, seq, hidden] before it: of all 'seq' together
# CHECK: 0268-scan-dim.mg:6:5: note: assigned here
# CHECK: help: give what the scan computes another name: it has the dim 'seq' after the scan
# CHECK-NOT: {{error|warning}}[MG
