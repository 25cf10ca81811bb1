# Few words are reserved: those of C, of settings and of units are names like any others.
# RUN: %front check %s
# RUN: %front roundtrip %s | FileCheck %s
dim batch = 2, seq = 4, int = 8, s = 3, x = 2
const while = 2, GB = 3, device = 4
model void(tokens[batch, seq] : token(int)) {
    for : param[int, s, x] ~ normal(1 / while)
    at = for[tokens] * GB / device
    ms = sum(at, over x) * 2
    optimizer = cross_entropy(ms @ sum(for, over x) over s, next(tokens))
    loss = optimizer
}
train { optimizer sgd()  lr 0.1 }
# CHECK: text same, tree same, comments same
