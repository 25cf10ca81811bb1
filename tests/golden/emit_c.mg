# RUN: %mgc %s --device=%S/Inputs/small.json --emit=c | FileCheck %s
#
# What a person would have written: places by name, a loop for what repeats, a guard before what
# cannot be undone, the line of the source over what it became.
# CHECK: /* line: compiled by mgc {{.*}}emit_c.mg, layout default.
# CHECK: #include "abi.h"
# CHECK: #define P_embed 0
# CHECK: #define X_train_tokens {{[0-9]+}} /* i32[micro=2, batch=1, seq=4] */
# CHECK: {"embed", "", "{{.*}}emit_c.mg:[[#PARAM:]]", MG_F32, MG_PARAM, P_embed,
# CHECK: static void step_micro(mg_run *r, char *a, int64_t i_micro)
# CHECK-NEXT: {
# CHECK-NEXT: /* [[#PARAM + 1]]: loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens)) */
# CHECK-NEXT: mg_gather(r, {{[0-9]+}}, &{{.*}}, a + P_embed, (const int32_t *)(a + X_train_tokens + i_micro * 16),
# CHECK: void mg_step(mg_run *r)
# CHECK: for (int64_t i_micro = 0; i_micro < 2; i_micro++) {
# CHECK: if (!mg_guard(
# CHECK-NEXT: return;
# CHECK: a + S_momentum_embed, a + P_embed});
# CHECK: void mg_eval(mg_run *r)
# CHECK: void mg_sample(mg_run *r)
# CHECK: const mg_program mg_main = {
# CHECK-NEXT: .abi = MG_ABI,
# CHECK-NEXT: .name = "line",
dim hidden = 4, vocab = 8, seq = 3, batch = 2

model line(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 1e-2)
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 1
    recompute  auto
}
