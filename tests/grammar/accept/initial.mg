# Initial values by formula, as words of a stack machine; of the external form. One that only draws is a distribution.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 2
const small = 0.5
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] = normal(0.02)
    a : param[vocab, hidden] = small * index(hidden) - sqrt(index(vocab) + 2 * small) as "a" [hidden, vocab]
    x = table[tokens] + a[tokens]
    repeat layers {
        b : param[hidden] = (select(index(hidden) == 1, -uniform(1, 2), max(0, normal(1))))
        x = x * b
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: tensor "table" {{.*}} init normal 0 0.02
# CHECK: tensor "a" {{.*}} init formula "0.5 index:8:3 mul index:1:8 1 add sqrt sub "
# CHECK: tensor "layers.b" {{.*}} init formula "index:1:3 1 eq uniform:1:2 neg 0 normal:1 max select "
