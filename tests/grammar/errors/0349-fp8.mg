# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 64, other = 64
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    w     : param[hidden, other] ~ normal(0.02) as "up.weight" [other, hidden]
    out   : param[vocab, other] ~ normal(0.02) as "head.weight"
    loss = cross_entropy((table[tokens] @ w over hidden) @ out over other, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    precision fp8
    adapter lora(rank = 2, base = nf4) on "up.weight"
    adapter four lora(rank = 2, base = nf3) on "up.weight"
}
# CHECK: 0349-fp8.mg:14:40: error[MG0307]: there is no type of a frozen base 'nf3'
# CHECK: help: there is: nf4
# CHECK: 0349-fp8.mg:13:5: error[MG0349]: base = nf4 beside precision fp8
# CHECK: help: products of fp8 read matrices that were rounded once: precision bf16
