# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
layout { precision bf16 }
layout auto { device h100 x 2  precision bf16, fp7, bf16 (master = bf16), fp8, fp8 }
layout more : auto { microbatch 1 }
# CHECK: 0357-layout-precision.mg:9:10: error[MG0357]: a layout says nothing of precision: `layout auto` alone may say which are sought
# CHECK: help: `precision` of the train block says it, or --precision
# CHECK: 0357-layout-precision.mg:10:48: error[MG0307]: there is no precision 'fp7'
# CHECK: help: there is: f32, f64, tf32, bf16, f16, fp8
# CHECK: 0357-layout-precision.mg:10:53: error[MG0357]: 'bf16' has arguments: a layout that is searched names it alone
# CHECK: 0357-layout-precision.mg:10:80: error[MG0357]: precision 'fp8' is there twice
# CHECK: 0357-layout-precision.mg:10:32: error[MG0357]: a layout says nothing of precision
