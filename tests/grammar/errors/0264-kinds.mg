# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 6
block gain(x) {
    g : param[hidden] = 1 as "odd"
    return g
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    even : param[hidden] = 1 as "h.4.odd"
    odd  : param[hidden] = 1 as "h.3.odd"
    repeat layers at l as "h.{}" {
        x = x * select(l % 2 == 1, gain(x), 2)
    }
    x = x * even * odd
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0264-kinds.mg:4:5: error[MG0264]: external name 'h.3.odd' is used twice
# CHECK: 0264-kinds.mg:11:5: note: by this parameter too
# CHECK: 0264-kinds.mg:4:5: note: it is a name of 'h.{1+2i}.odd' and of 'h.3.odd'
# CHECK-NOT: {{error|warning}}[MG
