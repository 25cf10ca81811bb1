# RUN: %mgc %s --print-after=guard | FileCheck %s --check-prefix=IR
# RUN: %mgc %s --device %S/Inputs/hosts.json --schedule | FileCheck %s
# RUN: %mgc %s --device %S/Inputs/hosts.json --emit=c -o - | FileCheck %s --check-prefix=C
# RUN: sed 's/update .*as_ready/update together/' %s > %t.mg
# RUN: %mgc %t.mg --device %S/Inputs/hosts.json --schedule | FileCheck %s --check-prefix=TOGETHER
#
# Updates as gradients are ready: the guard stands where the loss is known, and what was reduced first is updated first,
# while the rest is still on its way.
# IR: fn @train
# IR: %loss.1: f64[] = all_reduce
# IR-NEXT: guard %loss.1 of
# IR: repeat {{.*}} reverse
# IR: select
# IR: sqrt
# CHECK: s0 guard
# CHECK: loop layers x 6 reverse
# CHECK: [[#UP:]] s2 communication {{.*}}=layers.up[
# CHECK: end
# CHECK: [[#EMBED:]] s2 communication {{.*}}=embed
# CHECK: s0 kernel layers.down.update
# CHECK: s0 kernel layers.up.sum {{.*}} | after [[#UP]]
# CHECK: s0 kernel layers.up.update
# CHECK: s0 kernel embed.sum {{.*}} | after [[#EMBED]]
# CHECK: s0 kernel embed.update
# C: if (!mg_guard(r, {{[0-9]+}}, {{.*}}, NULL))
# C: .as_ready = true
# TOGETHER: loop layers x 6 reverse
# TOGETHER: s0 kernel embed.sum
# TOGETHER: s0 guard
# TOGETHER: .update
dim layers = 6, hidden = 512, ffn = 2048, vocab = 2048, seq = 256, batch = 8

model ready(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    x = embed[tokens]
    repeat layers {
        up   : param[hidden, ffn] ~ normal(0.02) as "up"
        down : param[ffn, hidden] ~ normal(0.02) as "down"
        x = x + tanh(x @ up over hidden) @ down over ffn
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-3)
    update    as_ready
}

layout {
    device     cpu
    mesh       dp = 2
    batch      -> dp
    microbatch 4
}
