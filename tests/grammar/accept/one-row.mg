# Sampling: the position is chosen before the head and all that maps each position by itself.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = x * index(seq)
    z = tanh((y @ table over hidden) / 30) * 30
    loss = cross_entropy(z, next(tokens)) + 0.5 * mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @sample
# CHECK: role tokens
# CHECK: role pos
# CHECK: arg %tokens: i32[batch=1, seq=4](vocab)
# CHECK: arg %pos: i32[](seq)
# CHECK: gather {{.*}}, %pos {dim=seq=4}
# CHECK: {{.*}}: f32[batch=1, vocab=8] = dot
# CHECK-NOT: vocab=8, seq
# CHECK-NOT: seq=4, vocab
# CHECK: result logits
