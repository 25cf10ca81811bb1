# A product that sums over a part of a dim of files.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4, heads = 2, head = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    w     : param[heads, head, vocab] ~ normal(0.02) as "head.weight" [vocab, (heads head)]
    q     : param[hidden, heads, head] ~ normal(0.02) as "q.weight" [(heads head), hidden]
    x = table[tokens] @ q over hidden
    loss = cross_entropy(sum(x @ w over head, over heads), next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    adapter lora(rank = 2) on "head.weight"
}
# CHECK: 0318-over.mg:9:32: error[MG0318]: 'head.weight' gets no adapter: this sums over (head), and files have (vocab) x (heads, head)
# CHECK: 0318-over.mg:14:31: note: it is selected here
# CHECK: 0318-over.mg:6:5: note: and declared here
# CHECK: help: an adapter is for matrices that products alone read, over one of their two dims in files, or for tables that are looked up alone; select no others
# CHECK-NOT: {{error|warning}}[MG
