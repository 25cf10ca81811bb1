# The tokens behind a sequence: as many as anything asks for; evaluation and training are given the same windows.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, ahead = 2
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens] @ table over hidden
    loss = cross_entropy(x, next(tokens), weight)
    repeat ahead at a {
        loss = loss + cross_entropy(x, next(tokens, by = a + 2), next(weight, by = a + 1)) / 2
    }
    metric far = mean(in_top(x, next(tokens, by = 4)))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @train
# CHECK: arg %tokens: i32[batch=2, seq=8](vocab)
# CHECK: arg %weight: f32[batch=2, seq=7]
# CHECK: window %tokens {along=seq=4, at=0}
# CHECK: window %tokens {along=seq=4, at=1}
# CHECK: window %weight {along=seq=4, at=0}
# CHECK: window %tokens {along=seq=4, at=2}
# CHECK: window %weight {along=seq=4, at=1}
# CHECK: window %tokens {along=seq=4, at=3}
# CHECK: window %weight {along=seq=4, at=2}
# CHECK: fn @eval
# CHECK: arg %tokens: i32[batch=2, seq=8](vocab)
# CHECK: arg %weight: f32[batch=2, seq=7]
# CHECK: window %tokens {along=seq=4, at=4}
# CHECK: fn @sample
# CHECK: arg %tokens: i32[batch=1, seq=4](vocab)
