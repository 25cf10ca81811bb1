# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer adamw(decay = 0.1 where size >= 2)  lr 0.1 }
# CHECK: 0306-condition.mg:8:43: error[MG0306]: this selects no parameters
# CHECK: help: by name, dim or rank: where "*.bias", vocab, rank >= 2
# CHECK-NOT: {{error|warning}}[MG
