# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 12, experts = 5
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers as "h.1{}" {
        w : param[hidden] = 1 as "w"
        x = x * w
    }
    a : param[hidden] = 1 as "h.1.w"
    b : param[hidden] = 1 as "h.112.w"
    c : param[hidden] = 1 as "h.100.w"
    d : param[hidden] = 1 as "h.111.w"
    g : param[experts, hidden] = 1 as "h.11{}.w"
    h : param[experts, hidden] = 1 as "h.2{}.w"
    k : param[hidden] = 1 as "h.23.w"
    l : param[hidden] = 1 as "h.25.w"
    x = x * a * b * c * d * k * l * sum(g, over experts) * sum(h, over experts)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0264-index.mg:13:5: error[MG0264]: external name 'h.111.w' is used twice
# CHECK: 0264-index.mg:7:9: note: by this parameter too
# CHECK: note: it is a name of 'h.111.w' and of 'h.1{}.w'
# CHECK: help: give one of them another name
# CHECK: 0264-index.mg:14:5: error[MG0264]: external name 'h.110.w' is used twice
# CHECK: 0264-index.mg:16:5: error[MG0264]: external name 'h.23.w' is used twice
# CHECK: 0264-index.mg:15:5: note: by this parameter too
# CHECK-NOT: {{error|warning}}[MG
