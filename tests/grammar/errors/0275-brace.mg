# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    a : param[hidden] = 1 as "a{"
    b : param[hidden] = 1 as "b{1+2i}"
    repeat layers as "h{0}.{}" {
        c : param[hidden] = 1
        x = x + a + b + c
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0275-brace.mg:6:5: error[MG0275]: external name 'a{' has a brace that stands for no number
# CHECK: help: the name of a repeat has one {}, for the number of its iteration
# CHECK: 0275-brace.mg:7:5: error[MG0275]: external name 'b{1+2i}' has a brace that stands for no number
# CHECK: 0275-brace.mg:9:9: error[MG0275]: external name 'h{0}.{}.c' has a brace that stands for no number
# CHECK-NOT: {{error|warning}}[MG
