# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x
    repeat deep as "layers" {
        y = y + x
    }
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0236-hole.mg:8:5: error[MG0236]: the name of a repeat holds one {}, for the number of the iteration
# CHECK: help: as "deep.{}"
# CHECK-NOT: {{error|warning}}[MG
