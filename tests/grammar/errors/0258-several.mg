# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block both(x, over d) {
    return x, sum(x, over d)
}
block handed(x, over d) {
    return both(x, over d)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    a, b, c = both(x, over hidden)
    d = both(x, over hidden)
    e = x + both(x, over hidden) * 2
    f, g = relu(x)
    h, i = x
    j, j = both(x, over hidden)
    k = handed(x, over hidden)
    table, l = both(x, over hidden)
    o, q = both(x)
    loss = cross_entropy((a + o) @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0258-several.mg:12:5: error[MG0258]: 3 names for the 2 values of 'both'
# CHECK: 0258-several.mg:3:7: note: 'both' is declared here
# CHECK: 0258-several.mg:13:9: error[MG0258]: 'both' gives 2 values where one is wanted
# CHECK: help: name them in a statement of their own: `a, b = both(...)`
# CHECK: 0258-several.mg:14:13: error[MG0258]: 'both' gives 2 values where one is wanted
# CHECK: 0258-several.mg:15:5: error[MG0258]: 2 names for the 1 value of 'relu'
# CHECK: help: only a block that returns several values has one for each name
# CHECK: 0258-several.mg:16:5: error[MG0258]: 2 names for one value
# CHECK: 0258-several.mg:17:8: error[MG0258]: 'j' is named twice
# CHECK: 0258-several.mg:7:12: error[MG0258]: 'both' gives 2 values where one is wanted
# CHECK: 0258-several.mg:19:5: error[MG0233]: parameter 'table' cannot be assigned
# CHECK: 0258-several.mg:20:12: error[MG0243]: 'both' needs `over d`
# CHECK-NOT: {{error|warning}}[MG
