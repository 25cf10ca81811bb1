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
    rollout groups(size = 3, tokens = 12)
}
# CHECK: 0594-tokens.mg:12:13: error[MG0594]: answers of 12 tokens, and a row has 9 with its prompt
# CHECK: help: tokens = 4, or -D seq=24
# CHECK-NOT: {{error|warning}}[MG
