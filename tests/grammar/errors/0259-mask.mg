# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    a = attention(x, x, x, along seq, over hidden, window = 2)
    b = attention(x, x, x, along seq, over hidden, causal, window = 1.5)
    c = attention(x, x, x, along seq, over hidden, causal, window = -3)
    d = attention(x, x, x, along seq, over hidden, causal, cap = -50)
    loss = cross_entropy((a + b + c + d) @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0259-mask.mg:6:9: error[MG0259]: a window of 2 keys without `causal`
# CHECK-NOT: note: in the definition
# CHECK: help: write `causal` behind `window = 2`: a query then sees itself and 1 keys before it
# CHECK: 0259-mask.mg:7:9: error[MG0259]: a window of 1.5 keys
# CHECK: help: a window is a whole number of keys, the query's own among them; 0 is no window
# CHECK: 0259-mask.mg:8:9: error[MG0259]: a window of -3 keys
# CHECK: 0259-mask.mg:9:9: error[MG0259]: a cap of -50
# CHECK: help: scores lie between -cap and cap, a number above 0; 0 is no cap
# CHECK-NOT: {{error|warning}}[MG
