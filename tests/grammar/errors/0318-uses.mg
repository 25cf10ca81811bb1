# A matrix is used by products alone, over one of its two dims in files.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4, heads = 2, head = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    w     : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    q     : param[hidden, heads, head] ~ normal(0.02) as "q.weight" [(heads head), hidden]
    x = table[tokens]
    y = sum(x @ q over hidden, over (heads, head)) + sum(sum(x, over hidden) * q)
    loss = cross_entropy((x + mean(y)) @ w over hidden, next(tokens)) + mean(w * w)
}
train {
    optimizer sgd()
    lr 0.1
    adapter lora(rank = 2) on "q.weight"
}
# CHECK: 0318-uses.mg:9:78: error[MG0318]: 'q.weight' gets no adapter: this reads it otherwise than by a product
# CHECK: 0318-uses.mg:15:31: note: it is selected here
# CHECK: 0318-uses.mg:7:5: note: and declared here
# CHECK: help: an adapter is for matrices that products alone read, over one of their two dims in files, or for tables that are looked up alone; select no others
# CHECK-NOT: {{error|warning}}[MG
