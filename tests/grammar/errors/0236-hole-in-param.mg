# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hidden] = 0 as "w.{}.{}"
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0236-hole-in-param.mg:6:5: error[MG0236]: more than one {} in the name of a parameter
# CHECK-NOT: {{error|warning}}[MG
