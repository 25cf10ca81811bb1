# What an instance may follow: one that was declared before, of the same block, with the same dims.
# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, wide = 5, layers = 2
block f(x, over d) {
    w : param[d] ~ normal(0.1)
    return x * w
}
block g(x, over d) {
    return x
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    other : param[vocab, wide] ~ normal(0.02)
    first : block f as "first" follows second by 0.9
    second : block f as "second" follows first by 0.9
    self : block f as "self" follows self by 0.9
    no : block f as "no" follows table by 0.9
    a : block f as "a"
    b : block g as "b" follows a by 0.9
    c : block f as "c" follows a after 3
    d : block f as "d" follows a by 0.9
    e : block f as "e" follows d every 10
    h : block f as "h"
    i : block f as "i" follows h by 0.9
    x = table[tokens]
    repeat layers as "l.{}" {
        each : block f as "each"
        x = each(x, over hidden)
        of : block f as "of" follows a by 0.5
        x = of(x, over hidden)
    }
    y = d(other[tokens], over wide)
    x = a(x, over hidden) + e(x, over hidden) + i(x, over hidden)
    loss = mean(x) + mean(y)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0279-follows.mg:14:40: error[MG0279]: no instance 'second' is declared before
# CHECK: 0279-follows.mg:16:38: error[MG0279]: no instance 'self' is declared before
# CHECK: 0279-follows.mg:17:34: error[MG0279]: no instance 'table' is declared before
# CHECK: 0279-follows.mg:19:32: error[MG0279]: 'a' is an instance of 'f', and this one of 'g'
# CHECK: 0279-follows.mg:18:5: note: declared here
# CHECK: 0279-follows.mg:20:34: error[MG0279]: 'after' says not how it follows
# CHECK: help: `by 0.99`: it keeps 0.99 of itself in each step; `every 1000`: it becomes the other in each 1000th
# CHECK: 0279-follows.mg:29:38: error[MG0279]: 'a' is declared in another repeat
# CHECK: 0279-follows.mg:18:5: note: declared here
# CHECK-NOT: {{error|warning}}[MG
