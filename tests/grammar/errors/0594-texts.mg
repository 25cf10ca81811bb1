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
    rollout groups(size = 3, tokens = 4, texts = 4)
}
# CHECK: 0594-texts.mg:12:13: error[MG0594]: 4 texts are generated at once, and a step has 6 rows
# CHECK: help: texts = 3, or leave it out: then all are
# CHECK-NOT: {{error|warning}}[MG
