# RUN: not %mgc %s --layout axis --check 2>&1 | FileCheck %s --check-prefix=AXIS
# RUN: not %mgc %s --layout deep --check 2>&1 | FileCheck %s --check-prefix=DEEP
# RUN: %mgc %s --layout once --print-after=shard | FileCheck %s --check-prefix=ONCE
# RUN: not %mgc %s --layout groups --check 2>&1 | FileCheck %s --check-prefix=GROUPS
# AXIS: error[MG0342]: 'batch' is split on the axis of a pipeline
# DEEP: error[MG0344]: 8 stages of 3 layers: all but the first and the last have one
# DEEP: help: -D layers=8
# ONCE: pipeline layers on pp schedule "gpipe" chunks 1 group 0 layers [
# GROUPS: error[MG0581]: interleaved
dim hidden = 32, layers = 3, vocab = 64, seq = 8, batch = 8

model fine(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    x = embed[tokens]
    repeat layers as "l.{}" {
        w : param[hidden] = 1
        x = x + tanh(x * w)
    }
    head : param[vocab, hidden] ~ normal(0.02)
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout axis {
    mesh pp = 2
    layers -> pp
    batch  -> pp
    microbatch 2
}

layout deep {
    mesh pp = 8
    layers -> pp
    microbatch 1
}

layout once {
    mesh pp = 2
    layers -> pp (schedule = gpipe)
}

layout groups {
    mesh pp = 2
    layers -> pp (schedule = interleaved)
    microbatch 8
}
