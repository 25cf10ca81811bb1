# RUN: not %front check %s 2>&1 | FileCheck %s
# RUN: sed 's/clip 1 /       /; s/f32/f16/' %s > %t.mg
# RUN: not %front check %t.mg 2>&1 | FileCheck %s --check-prefix=HALF
# RUN: sed 's/clip 1 /       /; s/as_ready/sometime/' %s > %t.mg
# RUN: not %front check %t.mg 2>&1 | FileCheck %s --check-prefix=WORD
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  clip 1  precision f32  update as_ready }
# CHECK: 0316-as-ready.mg:12:57: error[MG0316]: updates as_ready do not wait for all gradients, but clipping needs the norm of all gradients
# CHECK: 12:34: note: clipped here
# CHECK: help: leave out one of the two
# CHECK-NOT: {{error|warning}}[MG
# HALF: error[MG0316]: updates as_ready do not wait for all gradients, but f16 leaves out a step of which any gradient overflows
# HALF: help: leave it out, or train in bf16
# WORD: 12:64: error[MG0307]: there is no time of updates 'sometime'
# WORD: help: there is: together, as_ready
