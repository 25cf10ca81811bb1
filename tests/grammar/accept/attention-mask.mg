# The op has the window, the cap, documents and values of another width. A first key that
# document_start did not give may fall along the sequence: the definition takes it.
# RUN: %front ir %s | FileCheck %s
dim wide = 6
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    w : param[hidden, wide] ~ normal(0.02)
    v = x @ w over hidden
    begin = document_start(tokens, along seq, separator = 3)
    q = rope(x, begin, along seq, over hidden)
    y = attention(q, x, v, begin, along seq, over hidden, causal, window = 3, cap = 50)
    z = attention(q, x, v, index(seq) * 0.5, along seq, over hidden, causal)
    loss = mean(y + z)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: = attention {{.*}}causal=yes, window=3, cap=5e+01, within}
# CHECK-NOT: = attention
# CHECK: = rmax
