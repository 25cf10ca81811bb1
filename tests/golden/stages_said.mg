# RUN: %mgc %s --print-after=shard > %t.ir
# RUN: FileCheck %s < %t.ir
# RUN: %mgc --from=%t.ir --print-after=simplify | FileCheck %s
# RUN: %mgc %s --print-after=microbatch > %t.before
# RUN: FileCheck %s --check-prefix=BEFORE < %t.before
# RUN: %mgc --from=%t.before --print-after=shard | diff - %t.ir
# RUN: not %mgc %s --layout few --check 2>&1 | FileCheck %s --check-prefix=FEW
# RUN: not %mgc %s --layout more --check 2>&1 | FileCheck %s --check-prefix=MORE
# RUN: not %mgc %s --layout more -D pp=4 --check 2>&1 | FileCheck %s --check-prefix=RANKS
# RUN: %mgc %s --layout more -D pp=1 --check
# BEFORE: pipeline layers on pp schedule "interleaved" chunks 2 group 0 stages [3, 0, 3, 0]
# CHECK: pipeline layers on pp schedule "interleaved" chunks 2 group 0 layers [3, 0, 3, 0]
# FEW: stages_said.mg:[[#]]:64: error[MG0344]: 3 numbers of layers for 4 stages: 2 ranks of 2 chunks
# FEW: help: stages = [2, 1, 2, 1]
# MORE: stages_said.mg:[[#]]:28: error[MG0344]: 7 layers in stages, and 'layers' has 6
# MORE: help: stages = [4, 2]
# MORE: help: -D layers=7
# RANKS: stages_said.mg:[[#]]:28: error[MG0344]: 2 numbers of layers for 4 stages: 4 ranks of 1 chunk{{$}}
dim hidden = 32, layers = 6, vocab = 64, seq = 8, batch = 8

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

layout {
    mesh pp = 2
    layers -> pp (schedule = interleaved, chunks = 2, stages = [3, 0, 3, 0])
    microbatch 2
}

layout few {
    mesh pp = 2
    layers -> pp (schedule = interleaved, chunks = 2, stages = [3, 0, 3])
    microbatch 2
}

layout more {
    mesh pp = 2
    layers -> pp (stages = [3, 4])
    microbatch 2
}
