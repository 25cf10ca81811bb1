# A value that is assigned before a repeat and in it goes round; a number starts as a constant.
# RUN: %front ir %s | FileCheck %s
dim deep = 3
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    total = 0
    kept = x * 2
    repeat deep {
        new = x * 0.5
        total = total + mean(new)
        x = x + new + kept
    }
    repeat deep {
        new = x
        x = new + 1
    }
    loss = mean(x) + total
}
train { optimizer sgd()  lr 0.1 }
# CHECK: fn @train
# CHECK: [[ZERO:%.*]]: f32[] = const {value=0}
# CHECK: [[TOTAL:%.*]]: f32[], [[X:%.*]]: f32[batch=2, seq=4, hidden=2] = repeat [[ZERO]], %x {dim=deep=3, carried=2
# CHECK: repeat [[X]] {dim=deep=3, carried=1
# CHECK-NOT: fn @sample
