# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    w : param[] = 1 as "w.{}"
    v : param[hidden, vocab] = 1 as "v.{}" [hidden, vocab]
    loss = cross_entropy(w * (table[tokens] @ v over hidden), next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0236-hole-of-nothing.mg:5:5: error[MG0236]: {} is the index of a parameter's first dim, and this has none
# CHECK: 0236-hole-of-nothing.mg:6:45: error[MG0261]: 'hidden' is the {} of the name, and no dim of what is called so
# CHECK-NOT: {{error|warning}}[MG
