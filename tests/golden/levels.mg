# RUN: not %mgc %s --layout nowhere --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=NOWHERE
# RUN: not %mgc %s --layout less --check 2>&1 | FileCheck %s --check-prefix=LESS
# RUN: %mgc %s --layout enough --plan | FileCheck %s --check-prefix=ENOUGH
# RUN: %mgc %s --layout enough -D dp=1 --plan | FileCheck %s --check-prefix=ONE
#
# What the ranks of a machine offload: all of them against what it has, and what is asserted.
# NOWHERE: levels.mg:{{[0-9]+}}:5: error[MG0556]: 2 ranks of a machine offload {{[0-9]+}} bytes {{.*}} to the host, {{[0-9]+}} each, and the device 'cpu2t' has 0 (0 B) there for all of them
# NOWHERE: help: offload none
# LESS: levels.mg:{{[0-9]+}}:12: error[MG0557]: 2 ranks of a machine offload {{[0-9]+}} bytes ({{.*}}) to the host, {{[0-9]+}} each, where the layout asserts less than 64 (64 B)
# LESS: help: offload fewer classes, or assert more
# ENOUGH: host         {{.*}}, offloaded; 2 ranks of a machine: {{.*}} of 1.82 TiB
# ONE: host         {{.*}} of 1.82 TiB, offloaded
dim hidden = 32, vocab = 64, seq = 8, batch = 8

model levels(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
}

layout enough {
    device h100
    mesh   dp = 2
    batch, vocab -> dp
    state  -> dp
    offload state -> host
    assert host < 1 GB, disk < 1 kB
}
layout less : enough {
    assert host < 64 B
}
layout nowhere : enough {
    microbatch 1
}
