# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  precision bf16 (gradients = e4m3) }
# CHECK: 0308-gradients.mg:8:50: error[MG0308]: precision bf16 has no gradients of fp8
# CHECK: help: precision bf16
# CHECK-NOT: {{error|warning}}[MG
