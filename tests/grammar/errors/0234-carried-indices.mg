# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
dim deep = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    t = tokens
    repeat deep {
        t = next(tokens)
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0234-carried-indices.mg:8:12: error[MG0234]: indices 't' cannot change from iteration to iteration
# CHECK-NOT: {{error|warning}}[MG
