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
    adapter lora(rank = 2, dropout = 1) on "up.weight"
    adapter lora(rank = 0) on "up.weight"
    adapter lora(rank = 2, alpha = 0) on "up.weight"
    adapter lora(rank = 2, rank_stabilized = 2) on "up.weight"
    adapter lora(rank = 2, ratio = -1) on "up.weight"
}
# CHECK: 0303-adapter.mg:19:38: error[MG0303]: dropout is 1; it must be at least 0 and below 1
# CHECK: 0303-adapter.mg:20:25: error[MG0303]: this is 0; an integer of at least 1 is wanted
# CHECK: 0303-adapter.mg:21:36: error[MG0303]: alpha is 0; it must be above 0
# CHECK: 0303-adapter.mg:22:46: error[MG0303]: rank_stabilized is 1 or 0
# CHECK: 0303-adapter.mg:23:36: error[MG0303]: ratio is -1; it must be above 0
# CHECK-NOT: {{error|warning}}[MG
