# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(x)
    metric m0 = mean(x)
    metric m1 = mean(x)
    metric m2 = mean(x)
    metric m3 = mean(x)
    metric m4 = mean(x)
    metric m5 = mean(x)
    metric m6 = mean(x)
    metric m7 = mean(x)
    metric m8 = mean(x)
    metric m9 = mean(x)
    metric m10 = mean(x)
    metric m11 = mean(x)
    metric m12 = mean(x)
    metric m13 = mean(x)
    metric m14 = mean(x)
    metric m15 = mean(x)
    metric m16 = mean(x)
    metric m17 = mean(x)
    metric m18 = mean(x)
    metric m19 = mean(x)
    metric m20 = mean(x)
    metric m21 = mean(x)
    metric m22 = mean(x)
    metric m23 = mean(x)
    metric m24 = mean(x)
    metric m25 = mean(x)
    metric m26 = mean(x)
    metric m27 = mean(x)
    metric m28 = mean(x)
    metric m29 = mean(x)
    metric m30 = mean(x)
    metric m31 = mean(x)
    metric more = mean(x)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0277-many.mg:39:12: error[MG0277]: more than 32 metrics
# CHECK-NOT: {{error|warning}}[MG
