# RUN: not %mgc %s --layout nowhere --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=NOWHERE
# RUN: not %mgc %s --layout disk --check 2>&1 | FileCheck %s --check-prefix=DISK
# RUN: not %mgc %s --layout both --check 2>&1 | FileCheck %s --check-prefix=BOTH
# RUN: not %mgc %s --layout less --check 2>&1 | FileCheck %s --check-prefix=LESS
# RUN: %mgc %s --layout enough --plan | FileCheck %s --check-prefix=ENOUGH
# RUN: %mgc %s --layout enough -D dp=1 --plan | FileCheck %s --check-prefix=ONE
#
# What the ranks of a machine offload: all of them against what it has, and what is asserted.
# NOWHERE: levels.mg:{{[0-9]+}}:22: error[MG0556]: 'cpu2t' is a processor, whose programs offload to a disk, not to the host
# NOWHERE: help: --offload none: all is on the device
# DISK: levels.mg:{{[0-9]+}}:22: error[MG0556]: 'h100' has no disk to offload to: its description has no 'disk_memory'
# DISK-NEXT: offload state -> disk
# DISK-NEXT: ^~~~
# DISK-NEXT: help: offload to 'host': there are 1.82 TiB
# BOTH: levels.mg:{{[0-9]+}}:34: error[MG0556]: 'cpu' is a processor, whose programs offload to a disk, not to the host
# BOTH: help: offload to 'disk': there are {{.*}}iB
# LESS: levels.mg:{{[0-9]+}}:12: error[MG0557]: 2 ranks of a machine offload {{[0-9]+}} bytes ({{.*}}) to the host, {{[0-9]+}} each, where the layout asserts less than 64 (64 B)
# LESS: help: offload fewer classes, or assert more
# ENOUGH: host         {{.*}}, offloaded; 2 ranks of a machine: {{.*}} of 1.82 TiB
# RUN: %mgc %s --layout nothing --check 2>&1 | FileCheck %s --check-prefix=NOTHING
# NOTHING: levels.mg:{{[0-9]+}}:37: warning[MG0559]: 'gradients' has nothing to offload: the model has no layers, which a 'repeat' makes
# NOTHING: help: leave 'gradients' out of the line: 0 bytes of it go there
# NOTHING-NOT: 'state' has
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
layout disk : enough {
    offload state -> disk
}
layout both : enough {
    device  cpu
    offload state, parameters -> host
    offload gradients, kept -> disk
    assert disk < 1 GB
}
layout nothing : enough {
    offload state, gradients     -> host
}
