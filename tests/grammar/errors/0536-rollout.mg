# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 6, seq = 8, vocab = 8, hidden = 4, marks = 3, one = 1
model m(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), advantage[batch, one]) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    scores = table[tokens] @ table over hidden
    likely = sum(select(index(vocab) == next(tokens), scores, 0), over vocab)
    loss = mean(select(next(mask) == 1, advantage[one = 0] * likely, 0))
}
train {
    optimizer sgd()
    lr 0.1
    rollout groups(size = 3, tokens = 4)
}
# CHECK: 0536-rollout.mg:3:7: error[MG0536]: model 'm' has no logits of the next token
# CHECK: help: logits = policy(tokens), of which answers are drawn
# CHECK-NOT: {{error|warning}}[MG
