# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens] @ table over hidden
    loss = cross_entropy(x, next(tokens, by = 5), weight) + cross_entropy(x, next(tokens, by = 0), weight) + cross_entropy(x, next(tokens), next(weight, by = 4))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0254-by.mg:6:42: error[MG0254]: by = 5; behind a sequence of 4 there are tokens that far from 1 to 4
# CHECK: 0254-by.mg:6:91: error[MG0254]: by = 0; behind a sequence of 4 there are tokens that far from 1 to 4
# CHECK: 0254-by.mg:6:154: error[MG0254]: by = 4; behind a sequence of 4 there are weights that far from 1 to 3
# CHECK-NOT: {{error|warning}}[MG
