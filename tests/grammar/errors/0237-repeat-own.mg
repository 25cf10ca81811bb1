# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat hidden {
        x = x * 0.5
    }
    y = mean(x, over hidden)
    repeat hidden {
        y = y + mean(x, over hidden) + mean(x * 2, over (hidden, batch, seq))
    }
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0237-repeat-own.mg:6:12: error[MG0237]: a repeat over 'hidden', which [batch, seq, hidden] in it has
# CHECK: help: count the iterations by a dim of their own: `dim iterations = 3`, and `repeat iterations`
# CHECK: help: the part of an iteration: `repeat hidden at l`, and in it `x[hidden = l]`
# CHECK: 0237-repeat-own.mg:10:12: error[MG0237]: a repeat over 'hidden', which [batch, seq, hidden] in it has
# CHECK: 0237-repeat-own.mg:11:{{[0-9]+}}: note: this value
# CHECK-NOT: {{error|warning}}[MG
