# RUN: not %mgc %s -D vocab=40000 --device=%S/Inputs/small.json --check 2>&1 | FileCheck %s
# RUN: not %mgc %s -D vocab=40000 --device=%S/Inputs/small.json -o %t.out; test ! -e %t.out
# RUN: %mgc %s --device=%S/Inputs/small.json --check | FileCheck %s --check-prefix=FITS
#
# A program that does not fit says who holds the memory, and what would help.
# CHECK: error[MG0550]: the plan needs {{[0-9]+}} bytes {{.*}} and the device has 1048576 ({{.*}})
# CHECK: peak.mg:{{[0-9]+}}:{{[0-9]+}}: note: {{.*}} bytes
# CHECK: help:
# FITS: line: 1 rank, layout default on small in f32; peak {{.*}} of 1 MiB; step {{.*}} predicted; MFU {{[0-9]+}}%; no communication
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
