# Keys along a dim of their own, of another length: the op knows it. Keys of the same sequence under another name, with
# a causal mask, are the op of one sequence. Queries that lack what keys have get it. A sink is an operand, and so
# is a bias. Causal attention to keys of another length is computed by the definition.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, source = 6, vocab = 8, hidden = 2, heads = 3
model m(tokens[batch, seq] : token(vocab)) {
    dim key = seq
    table : param[vocab, hidden] ~ normal(0.02)
    fold : param[seq, source] ~ normal(0.02)
    each : param[heads] ~ normal(0.02)
    x = table[tokens]
    z = x @ fold over seq
    a = attention(x, z, z, along seq, along source, over hidden, cap = 5)
    b = attention(x, x[seq -> key], x[seq -> key], along seq, along key, over hidden, causal, window = 2)
    c = attention(x, z * each, z * each, along seq, along source, over hidden, sink = each)
    d = attention(x, z, z, along seq, along source, over hidden, bias = index(seq) - index(source))
    e = attention(x, z, z, along seq, along source, over hidden, causal)
    loss = mean(a + b + d + e) + mean(c)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: = attention %x, %z, %z {over=[hidden=2], along=seq=4, scale={{[0-9.]*}}, causal=no, cap=5, keys=source=6}
# CHECK: = attention {{.*}}causal=yes, window=2}
# CHECK: = copy %x
# CHECK: = attention {{.*}}, %each {{.*}}keys=source=6, sunk}
# CHECK: = attention {{.*}}causal=no, keys=source=6, biased}
# CHECK-NOT: = attention
# CHECK: = rmax
