# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# CHECK: scan_split.mg:[[#]]:5: error[MG0345]: 'seq' is split, and a scan goes along it
# CHECK: scan_split.mg:[[#]]:10: note: this scan: each index waits for the one before
# CHECK: help: split the batch, or a dim that the scan does not go along
dim hidden = 32, vocab = 64, seq = 8, batch = 8

model fading(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    x = embed[tokens]
    h = expand(0, over (batch, hidden))
    scan seq {
        h = 0.9 * h + x
        y = tanh(h)
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
