# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 6, seq = 8, vocab = 8, hidden = 4, marks = 3, one = 1
model m(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), advantage[batch, one], old[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    logits = table[tokens] @ table over hidden
    each = sum(select(index(vocab) == next(tokens), logits, 0), over vocab)
    loss = mean(select(next(mask) == 1, advantage[one = 0] * each, 0)) + mean(old)
}
train {
    optimizer sgd()
    lr 0.1
    rollout groups(size = 3, tokens = 4, updates = 2)
}
# CHECK: 0596-likely.mg:3:7: error[MG0596]: model 'm' has no likely[batch, seq], the log probability of each target
# CHECK: 0596-likely.mg:12:13: note: of which `old` is made, for several updates an answer
# CHECK-NOT: {{error|warning}}[MG
