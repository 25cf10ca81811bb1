# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x
    repeat deep {
        repeat deep {
            y = y + x
        }
    }
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0237-repeat-twice.mg:9:16: error[MG0237]: a repeat over 'deep' inside another
# CHECK-NOT: {{error|warning}}[MG
