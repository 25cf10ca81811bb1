# A scan reads at its index, carries what was assigned before it, and gives all values of what is new in it.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, prev = hidden
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    w     : param[prev, hidden] ~ normal(0.02)
    x = table[tokens]
    h = expand(0, over (batch, hidden))
    scan seq {
        h = h[hidden -> prev] @ w over prev + table[tokens] + index(seq) * x
        out = h
        unread = h * 2
    }
    scan seq reverse {
        h = h + out
        back = select(tokens == next(tokens), h, 0)
    }
    loss = mean(back) + mean(h) + cross_entropy(back @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @train
# CHECK: [[ZERO:%.*]]: f32[batch=2, hidden=3] = copy %const
# CHECK: [[X:%.*]]: f32[seq=4, batch=2, hidden=3] = copy %x
# CHECK: [[H:%.*]]: f32[batch=2, hidden=3], [[OUT:%.*]]: f32[seq=4, batch=2, hidden=3] = repeat [[ZERO]], {{.*}}[[X]] {dim=seq=4, carried=1, reverse=no, scan} @9:10 {
# CHECK: arg %seq: i32[]
# CHECK: gather %table, {{%tokens.*}} {dim=vocab=8}
# CHECK: cast %seq
# CHECK: [[BACK:%.*]]: f32[batch=2, hidden=3], {{%.*}}: f32[seq=4, batch=2, hidden=3] = repeat [[H]], [[OUT]], {{.*}} {dim=seq=4, carried=1, reverse=yes, scan}
