# What the rule of a file's optimizer may not say, though its declaration is whole.
# RUN: not %mgc --check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4

block owns(x) {
    w : param[hidden] = 0
    return x * w
}

block counts(x) {
    repeat seq {
        x = x + 1
    }
    return x
}

block itself(x) {
    return itself(x)
}

optimizer bad() {
    a = sum(g)
    b = step()
    c = dropout(g, p = 0.1)
    d = owns(g)
    e = counts(g)
    f = itself(g)
    h = g / 0
    i = g * 1e300
    j = missing(g)
    k = index(rows)
    l = attention(g, g, g, along rows, over cols)
    p = sum(p - lr * g, over cols)
}

model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    gain  : param[hidden]        = 1
    x = table[tokens] * gain
    loss = cross_entropy(x @ table over hidden, next(tokens))
}

train {
    optimizer bad()
    lr        0.1
}
# CHECK: optimizer_rule.mg:22:9: error[MG0110]: 'sum' of all dims in the rule of an optimizer
# CHECK: help: a parameter of a repeat lies beside those of the other layers: write `over all`
# CHECK: optimizer_rule.mg:23:9: error[MG0110]: 'step' in the rule of an optimizer
# CHECK: help: the number of the step, from 1, is `step`
# CHECK: optimizer_rule.mg:24:9: error[MG0110]: 'dropout' in the rule of an optimizer
# CHECK: help: a rule is arithmetic on elements, sums and means over `rows`, `cols` or `all`, and products
# CHECK: optimizer_rule.mg:6:5: error[MG0110]: a parameter in the rule of an optimizer
# CHECK: help: a rule is arithmetic on the parameter, its gradient and its states
# CHECK: optimizer_rule.mg:11:12: error[MG0110]: a loop in the rule of an optimizer
# CHECK: help: a rule is arithmetic on the parameter, its gradient and its states
# CHECK: optimizer_rule.mg:18:12: error[MG0232]: block 'itself' calls itself
# CHECK: optimizer_rule.mg:17:7: note: declared here
# CHECK: help: `repeat` runs a body several times
# CHECK: optimizer_rule.mg:28:11: error[MG0212]: [vocab, hidden] / 0 divides by zero
# CHECK: optimizer_rule.mg:29:11: error[MG0212]: 1e+300 is infinite in f32, whose largest number is 3.4e38
# CHECK: optimizer_rule.mg:30:9: error[MG0248]: there is no block or function 'missing'
# CHECK: optimizer_rule.mg:31:9: error[MG0110]: 'index' in the rule of an optimizer
# CHECK: help: a rule is arithmetic on elements, sums and means over `rows`, `cols` or `all`, and products
# CHECK: optimizer_rule.mg:37:5: note: where it updates this parameter, [vocab, hidden]
# CHECK: optimizer_rule.mg:32:34: error[MG0203]: unknown dim 'rows'
# CHECK: help: rows and cols are a matrix's: `select(matrix, ..., ...)` chooses by the parameter
# CHECK: optimizer_rule.mg:33:30: error[MG0203]: unknown dim 'cols'
# CHECK: help: rows and cols are a matrix's: `select(matrix, ..., ...)` chooses by the parameter
# CHECK: optimizer_rule.mg:38:5: note: where it updates this parameter, [hidden]
# CHECK-NOT: {{error|warning}}[MG
