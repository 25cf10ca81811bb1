# RUN: %mgc %s --device=%S/Inputs/small.json --plan | FileCheck %s
# RUN: %mgc %s --device=%S/Inputs/small.json --schedule | FileCheck %s --check-prefix=SCHEDULE
# RUN: %mgc explain %s embed --device=%S/Inputs/small.json | FileCheck %s --check-prefix=EXPLAIN
#
# CHECK: model line, layout default, device small, 1 rank
# CHECK-NEXT: precision f32: the train block says so
# CHECK-NEXT: parameters 32
# CHECK-NEXT: step 2 sequences of 3, 1 at once
# CHECK: memory
# CHECK-NEXT: params 128 B
# CHECK-NEXT: grads 128 B
# CHECK-NEXT: optimizer 128 B
# SCHEDULE: loop micro x 2
# SCHEDULE: gather
# SCHEDULE: head
# SCHEDULE: end
# SCHEDULE: guard
# SCHEDULE: eval:
# SCHEDULE: sample:
# EXPLAIN: parameter embed
# EXPLAIN-NEXT: declared {{.*}}plan.mg:[[#LINE:]]:5
# EXPLAIN-NEXT: embed : param[vocab, hidden] ~ normal(0.1) as "embed"
# EXPLAIN-NEXT: stored f32[vocab=8, hidden=4], 128 B
# EXPLAIN-NEXT: external embed [8, 4]
# EXPLAIN-NEXT: starts as normal, mean 0, deviation 0.1
# EXPLAIN: buffer embed, a parameter
# EXPLAIN-NEXT: bytes 128 at offset 0 of the arena, always
# EXPLAIN: read by @train action {{[0-9]+}}: gather {{.*}}plan.mg:[[#LINE + 1]]:
# EXPLAIN: updated by @train action {{[0-9]+}}: kernel
# EXPLAIN: buffer momentum.embed, optimizer state
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
