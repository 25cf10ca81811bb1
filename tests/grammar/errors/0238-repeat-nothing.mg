# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat deep {
        y = x + 1
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0238-repeat-nothing.mg:7:12: error[MG0238]: this repeat changes no value that was assigned before it
# CHECK: help: assign it before: x = ...  repeat deep { x = f(x) }
# CHECK-NOT: {{error|warning}}[MG
