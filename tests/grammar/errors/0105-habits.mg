# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    x += 1
    x = x ** 2
    x = x // half
    x = select(x > 0 and x < 1, x, 0)
    x = 2 * x
    if layers > 2 { x = 2 * x }
    x = 2 * x
    for i in range(layers) { x = 2 * x }
    x = sum(x, dim=-1)
    x = 2 * x;
    x = x.tanh()
    x = 2 * x
    where = x
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0105-habits.mg:6:7: error[MG0105]
# CHECK: help: write `x = x + ...`
# CHECK: :7:12: error[MG0105]
# CHECK: help: a power is `pow(a, k)`
# CHECK: :8:12: error[MG0105]
# CHECK: help: a comment begins with `#`
# CHECK: :9:22: error[MG0105]
# CHECK: help: of two conditions: `select(a, select(b, x, y), y)`
# CHECK: :11:8: error[MG0105]
# CHECK: help: `select(condition, a, b)` chooses
# CHECK: :13:9: error[MG0105]
# CHECK: help: `repeat layers { ... }` runs a body once for each index of a dim
# CHECK: :14:16: error[MG0105]
# CHECK: help: axes have names, and no numbers: `sum(x, over hidden)`
# CHECK: :15:14: error[MG0101]
# CHECK: help: a statement ends where the next one begins
# CHECK: :16:10: error[MG0101]
# CHECK: help: there are no methods and no modules: `relu(x)`
# CHECK: :16:15: error[MG0105]
# CHECK: :18:5: error[MG0105]: 'where' cannot stand here
# CHECK: help: 'where' is a reserved word: choose another name
# CHECK-NOT: {{error|warning}}[MG
