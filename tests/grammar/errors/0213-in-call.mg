# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    w : param[seq, vocab] = 0
    return x @ w over hidden
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0213-in-call.mg:5:23: error[MG0213]: 'hidden' cannot be summed: the right side has no such dim
# CHECK: 0213-in-call.mg:10:17: note: in this call of 'f'
# CHECK: 0213-in-call.mg:5:12: note: left:  [batch, seq, hidden]
# CHECK: 0213-in-call.mg:5:16: note: right: [seq, vocab]
# CHECK: help: they share seq: `over seq`
# CHECK-NOT: {{error|warning}}[MG
