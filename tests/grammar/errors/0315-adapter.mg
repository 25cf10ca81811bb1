# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4, other = 6, experts = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    gain  : param[hidden] = 1 as "norm.weight"
    w     : param[hidden, other] ~ normal(0.02) as "up.weight" [other, hidden]
    back  : param[other, hidden] ~ normal(0.02) as "down.weight" [hidden, other]
    a     : param[hidden, other] ~ normal(0.02) as "both.weight" [other at 0, hidden]
    b     : param[hidden, other] ~ normal(0.02) as "both.weight" [other at other, hidden]
    each  : param[experts, hidden, other] ~ normal(0.02) as "experts.{}.weight" [other, hidden]
    x = table[tokens] * gain
    y = x @ w over hidden + x @ a over hidden + x @ b over hidden + sum(x @ each over hidden, over experts)
    z = x + y @ back over other
    loss = cross_entropy(z @ table over hidden, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    adapter lora(rank = 2) on "up.weight", "q_proj*"
}
# CHECK: 0315-adapter.mg:19:44: error[MG0315]: this names no parameter of the model
# CHECK: help: the matrices are {{.*}}up.weight{{.*}}
# CHECK-NOT: {{error|warning}}[MG
