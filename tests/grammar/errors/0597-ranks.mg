# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 6, seq = 8, vocab = 8, hidden = 4, marks = 3, one = 1
model m(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), advantage[batch, one]) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    logits = table[tokens] @ table over hidden
    likely = sum(select(index(vocab) == next(tokens), logits, 0), over vocab)
    loss = mean(select(next(mask) == 1, advantage[one = 0] * likely, 0))
}
train {
    optimizer sgd()
    lr 0.1
    rollout groups(size = 3, tokens = 4)
}
layout {
    device cpu
    mesh dp = 2
    batch -> dp
}
# CHECK: 0597-ranks.mg:12:13: error[MG0597]: rollouts of 2 ranks, and one is what is built
# CHECK: help: -D AXIS=1 for each axis of the layout's mesh
# CHECK-NOT: {{error|warning}}[MG
