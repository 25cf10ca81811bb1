# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 4, layers = 2, depth = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    p : param[hidden, wide] ~ normal(0.02) as "pq" [hidden, wide at 0]
    q : param[hidden, wide] ~ normal(0.02) as "pq" [hidden at 3, wide]
    r : param[hidden, wide] ~ normal(0.02) as "rs" [hidden, wide at 0]
    s : param[hidden] = 1 as "rs" [hidden at 4]
    x = table[tokens]
    repeat layers as "{}" {
        t : param[hidden] = 1 as "t" [hidden at 0]
        x = x * t
    }
    repeat depth as "{}" {
        u : param[hidden] = 1 as "t" [hidden at hidden]
        x = x * u
    }
    w : param[hidden] = 1 as "1.t" [hidden at 0]
    v : param[hidden] = 1 as "rs"
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0269-unlike.mg:6:5: error[MG0269]: 'q' is [3 at 3, 4] of 'pq', of which another part is [3, 4 at 0]
# CHECK: 0269-unlike.mg:5:5: note: by this parameter
# CHECK: help: parts lie along the same external dim, and are alike in all others
# CHECK: 0269-unlike.mg:8:5: error[MG0269]: 's' is [3 at 4] of 'rs', of which another part is [3, 4 at 0]
# CHECK: 0269-unlike.mg:15:9: error[MG0269]: 'u' is [3 at 3] of '{}.t', of which another part is [3 at 0]
# CHECK: help: parts lie along the same external dim, and are alike in all others, and in the number of layers
# CHECK: 0269-unlike.mg:18:5: error[MG0264]: external name '1.t' is used twice
# CHECK: 0269-unlike.mg:19:5: error[MG0264]: external name 'rs' is used twice
# CHECK: help: where both are parts of one tensor, each says where it begins
# CHECK-NOT: error[MG
