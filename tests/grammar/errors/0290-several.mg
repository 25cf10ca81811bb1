# One of several results is not used; and a name without `=` after it begins no statement.
# RUN: %front check %s 2>&1 | FileCheck %s
# RUN: sed 's/a, b = f/a, b f/' %s > %t.mg
# RUN: not %front check %t.mg 2>&1 | FileCheck --check-prefix=LACKS %s
# RUN: sed 's/x = table.tokens.$/x = = tokens/' %s > %t.2.mg
# RUN: not %front check %t.2.mg 2>&1 | FileCheck --check-prefix=AFTER %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block f(x, over d) {
    return x, sum(x, over d)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    a, b = f(x, over hidden)
    loss = cross_entropy(a @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0290-several.mg:14:8: warning[MG0290]: value 'b' is not used
# CHECK-NOT: {{error|warning}}[MG
# LACKS: mg:14:10: error[MG0105]: expected ',' or '=', found 'f'
# AFTER: mg:13:9: error[MG0105]
# AFTER-NOT: {{error|warning}}[MG
