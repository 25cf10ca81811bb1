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
    rollout groups(size = 3, tokens = 4, updates = 2)
}
# CHECK: 0595-old.mg:3:7: error[MG0595]: with several updates an answer a model has old[batch, seq], the log probabilities before the first of them
# CHECK: 0595-old.mg:12:13: note: it learns what it generates
# CHECK: help: model m(tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks), advantage[batch, one], old[batch, seq])
# CHECK-NOT: {{error|warning}}[MG
