# RUN: %mgc %s --print-after=differentiate > %t.mgir
# RUN: %mgc --from=%t.mgir --print-after=microbatch > %t.rest
# RUN: %mgc %s --print-after=microbatch | diff - %t.rest
# RUN: not %mgc --from=%t.mgir --print-after=precision 2>&1 | FileCheck %s
#
# A dump goes on where it was made, and not before.
# CHECK: has been through 'precision' already
# CHECK-NEXT: help: name a later pass
dim hidden = 4, vocab = 8, seq = 3, batch = 2

model line(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 1e-2)
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 1
    recompute  auto
}
