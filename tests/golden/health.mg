# RUN: %mgc %s --emit=c -o - | FileCheck %s
# RUN: sed 's/^    batch -> dp/&\n    state, grads, params -> dp/' %s > %t.mg
# RUN: %mgc %t.mg --emit=c -o - | FileCheck %s --check-prefix=ZERO
# RUN: %mgc %s -D dp=1 --emit=c -o - | FileCheck %s --check-prefix=ONE
#
# What --health compares. Replicas make the same of the same rows in all actions before the guard (the last line of
# mg_step that matters here); with ZeRO not where gradients are cut, nor in what is computed of the parts until it is added
# up. Gradients lie in memory at the guard.
#
# CHECK: if (!mg_guard(r, [[#GUARD:]],
# CHECK: static const mg_actions alike[] = {
# CHECK-NEXT: {0, [[#GUARD]]}
# CHECK: static const mg_held held[] = {
# CHECK-NEXT: , 16384, 1, 0, 7}, {{.*}}, 16384, 1, 0, 7}
# CHECK: .alike = alike, .nalike = sizeof alike / sizeof *alike,
# CHECK-NEXT: .held = held, .nheld = sizeof held / sizeof *held,
#
# ZERO: mg_comm(r, [[#CUT:]], &{{.*}}, G_
# ZERO-NEXT: LAUNCH([[#CUT+1]],
# ZERO: mg_scatter_add(r, [[#CUT+2]],
# ZERO: static const mg_actions alike[] = {
# ZERO-NEXT: {0, [[#CUT]]}, {[[#CUT+2]], [[#CUT+3]]},
# ZERO: static const mg_held held[] = {
# ZERO-NEXT: , 8192, 1, 0, 7}, {{.*}}, 8192, 1, 0, 7}
#
# ONE-NOT: alike
# ONE: static const mg_held held[] = {
dim hidden = 16, vocab = 256, seq = 8, batch = 4

model tiny(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed.weight"
    head  : param[hidden, vocab] ~ normal(0.1) as "head.weight"
    x = tanh(embed[tokens])
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-2, warmup = 5, steps = 50, floor = 1e-3)
    clip      1.0
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 2, cp = 1, tp = 1
    batch -> dp
    microbatch 1
    recompute  auto
}
