# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
config {
    a = hidden
    b = {a = 1, c = [1, 2], a = 2}
    a = "twice"
    d = sizes
}

# CHECK: 0314-config.mg:11:29: error[MG0314]: 'a' is set twice
# CHECK: 0314-config.mg:11:10: note: here first
# CHECK: 0314-config.mg:12:5: error[MG0314]: 'a' is set twice
# CHECK: 0314-config.mg:10:5: note: here first
# CHECK: 0314-config.mg:13:9: error[MG0201]: unknown name 'sizes'
# CHECK-NOT: {{error|warning}}[MG
