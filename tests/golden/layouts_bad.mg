# RUN: not %mgc %s -D tp=2 --check 2>&1 | FileCheck %s --check-prefix=UNUSED
# RUN: not %mgc %s -D cp=2 --check 2>&1 | FileCheck %s --check-prefix=ZIGZAG
# RUN: not %mgc %s -D dp=3 --check 2>&1 | FileCheck %s --check-prefix=BATCH
# UNUSED: error[MG0333]: no rule splits anything on axis 'tp', of 2 ranks
# UNUSED: help: -D tp=1
# ZIGZAG: layouts_bad.mg:32:5: error[MG0340]: 'seq' is split in zigzag order, and no attention runs along it
# ZIGZAG: help: seq -> cp, without it
# BATCH: error[MG0332]: 'batch' of 8 is not split evenly on 3 ranks
# BATCH: help: -D dp=2
# BATCH: help: -D dp=4
dim hidden = 32, vocab = 8, seq = 8, batch = 8, layers = 2

model bad(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    x = embed[tokens]
    repeat layers as "layers.{}" {
        w : param[hidden] = 1
        x = x * w
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    batch      -> dp
    seq        -> cp (zigzag)
    layers     -> pp
    microbatch 2
}
