# RUN: %mgc %s --print-after=all | FileCheck %s
# RUN: %mgc %s --print-after=lower | FileCheck %s --check-prefix=LOWER
# RUN: %mgc %s --print-after=lower --print-after=update | FileCheck %s --check-prefix=TWO
#
# Every pass in order, each text saying where it is from; no text of a pass that was not asked for.
# CHECK: # after lower
# CHECK: # after precision
# CHECK: # after differentiate
# CHECK: # after microbatch
# CHECK: # after update
# CHECK: # after simplify
# LOWER: # after lower
# LOWER-NEXT: mgir 1
# LOWER-NEXT: model "line" source {{.*}}pipeline.mg"
# LOWER-NOT: # after
# TWO: # after lower
# TWO-NOT: # after microbatch
# TWO: # after update
# TWO-NOT: # after
dim hidden = 4, vocab = 8, seq = 3, batch = 2

model line(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        constant(peak = 1e-2)
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 2
    recompute  auto
}
