# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = attention(x, x, x, along seq, over hidden, casual = 1)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0240-flag.mg:6:52: error[MG0240]: 'attention' has no argument 'casual'
# CHECK: help: did you mean 'causal'?
# CHECK: prelude.mg:95:7: note: 'attention' is declared here
# CHECK-NOT: {{error|warning}}[MG
