# config.json in the language's words.
# RUN: %front check %s
# RUN: %front roundtrip %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
const third = 1 / 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
config {
    architectures = ["A", "B"]
    hidden_size = 2 * hidden  # an expression
    eps = 1e-5
    third = third
    nested = {a = {b = [1, [2, 3]]}, c = null}
    tied = true
}
# CHECK: text same, tree same, comments same
