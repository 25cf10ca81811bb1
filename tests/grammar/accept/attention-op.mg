# Attention is an op, with its scale known; --inline shows its definition.
# RUN: %front ir %s | FileCheck %s
# RUN: %front ir %s --inline | FileCheck --check-prefix=INLINE %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    x = attention(x, x, x, along seq, over hidden)
    x = attention(x, x, x, along seq, over hidden, causal, scale = 2 / 4)
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: = attention %x, %x, %x {over=[hidden=2], along=seq=4, scale=0.70710678118654{{[0-9]*}}, causal=no}
# CHECK: = attention {{.*}}scale=0.5, causal=yes}
# INLINE: fn @train
# INLINE-NOT: attention
# INLINE-NOT: cross_entropy
