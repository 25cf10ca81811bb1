# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = (x
    z = x + * x
    loss = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0105-two-errors.mg:7:5: error[MG0105]: expected '(', ')' or ',', found 'z'
# CHECK: 0105-two-errors.mg:7:13: error[MG0105]: expected an expression, found '*'
# CHECK-NOT: {{error|warning}}[MG
