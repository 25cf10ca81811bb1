# Instances are as different as calls: two of one name, and the block of one that is called twice without a name.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x) {
    w : param[hidden] = 1
    return x * w
}
block twice(x) {
    return f(f(x))
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    a : block f as "a"
    b : block f as "a"
    c : block twice as "c"
    loss = mean(b(a(table[tokens]))) + mean(c(table[tokens]))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0264-instances.mg:5:5: error[MG0264]: external name 'a.w' is used twice
# CHECK-NOT: {{error|warning}}[MG
