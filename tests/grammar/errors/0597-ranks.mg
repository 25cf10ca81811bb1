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
    mesh cp = 2
    seq -> cp
}
# CHECK: 0597-ranks.mg:17:5: error[MG0597]: a token is one position, and 'cp' of 2 splits positions alone
# CHECK: help: -D cp=1
# CHECK-NOT: {{error|warning}}[MG
