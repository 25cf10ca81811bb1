# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# CHECK: scan_split.mg:[[#]]:5: error[MG0345]: 'seq' is split, and a scan goes along it
# CHECK: scan_split.mg:[[#]]:10: note: this scan: each index waits for the one before, for what it carries is not linear in what it carried
# CHECK: help: a scan that updates its state linearly may be split
# CHECK: help: split the batch, or a dim that the scan does not go along
# A linear one goes on in chunks of what a rank has, if these may be cut.
# RUN: sed 's/tanh(0.9/(0.9/; s/mesh/chunk 1 mesh/' %s > %t.mg
# RUN: not %mgc %t.mg --check 2>&1 | FileCheck %s --check-prefix=ONE
# ONE: error[MG0345]: 'seq' is split, and a scan goes along it
# ONE: help: it is linear, and may be split in chunks: without `chunk 1`
# RUN: sed 's/tanh(0.9/(0.9/; s/mesh/chunk 4 mesh/' %s > %t.mg
# RUN: not %mgc %t.mg -D cp=8 --check 2>&1 | FileCheck %s --check-prefix=PRIME
# PRIME: help: it is linear, and may be split in chunks: the 1 seq of a rank have to be cut evenly, into 2 to 4 each
# RUN: %mgc %t.mg --plan 2>&1 | FileCheck %s --check-prefix=TWO
# TWO: scans {{.*}} 8 of seq: 2 chunks of 4
dim hidden = 32, vocab = 64, seq = 8, batch = 8

model fading(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    x = embed[tokens]
    h = expand(0, over (batch, hidden))
    scan seq {
        h = tanh(0.9 * h + x)
        y = h
    }
    loss = cross_entropy(y @ embed over hidden, next(tokens))
}

train {
    optimizer adamw()
    lr        1e-3
}

layout {
    mesh cp = 2
    seq -> cp
}
