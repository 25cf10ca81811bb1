# Lists of dims of different lengths; and the same lists in a program that is right.
# RUN: not %front check %s 2>&1 | FileCheck %s
# RUN: sed 's/, over a)/, over (a, b))/' %s > %t.mg
# RUN: %front ir %t.mg | FileCheck --check-prefix=RIGHT %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, a = 2, b = 3
block gram(x, over d, over e) {
    dim t = e
    return rounded(sum(x @ x[d -> t] over batch, over (d, t)))
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    w : param[hidden, a, b] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens)) + mean(gram(x @ w over hidden, over (a, b), over a))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0207-lists.mg:8:35: error[MG0207]: 'd' stands for 2 dims (a, b), and 't' for 1 (t)
# CHECK-NOT: {{error|warning}}[MG
# RIGHT: rename {{.*}}{dim=a=2, to=t=2}
# RIGHT: rename {{.*}}{dim=b=3, to=t_2=3}
