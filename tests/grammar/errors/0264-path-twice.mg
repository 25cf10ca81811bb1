# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block norm(x) {
    gain : param[hidden] = 1 as "weight"
    return x * gain
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(norm(x) + norm(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0264-path-twice.mg:4:5: error[MG0264]: external name 'weight' is used twice
# CHECK: 0264-path-twice.mg:10:27: note: in this call of 'norm'
# CHECK: help: give the call a name: norm(...) as "..."
# CHECK-NOT: {{error|warning}}[MG
