# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
block f(x) {
    repeat deep {
        x = x + 1
        return x
    }
    return x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0239-return-in-repeat.mg:7:9: error[MG0239]: return inside of a repeat
# CHECK-NOT: {{error|warning}}[MG
