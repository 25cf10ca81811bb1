# Operands the op does not take (values with two dims of their own) are computed by the definition.
# RUN: %front ir %s | FileCheck %s
# RUN: %front ir %s -D wide=2 | FileCheck %s
dim wide = 6, more = 2
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hidden, wide, more] ~ normal(0.02)
    v = x @ w over hidden
    y = attention(x, x, v, along seq, over hidden, causal)
    loss = mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK-NOT: = attention
# CHECK: = rename {{.*}}to=t=4
# CHECK: = rmax
# CHECK-NOT: = attention
