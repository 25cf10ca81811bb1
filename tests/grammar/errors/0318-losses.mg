# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    w     : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    other = mean(table[tokens])
    loss = cross_entropy(table[tokens] @ w over hidden, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    adapter lora(rank = 2) on "head.weight"
}
train other where "embed.weight" { optimizer sgd()  lr 0.1  adapter lora(rank = 1) on "embed.weight" }
# CHECK: 0318-losses.mg:14:61: error[MG0318]: an adapter stands in the train block without a name
# CHECK: 0318-losses.mg:12:5: error[MG0318]: an adapter beside several losses
# CHECK: help: an adapter freezes all parameters but its own, which follow `loss`
# CHECK-NOT: {{error|warning}}[MG
