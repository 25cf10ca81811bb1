# RUN: %mgc %s --device=%S/Inputs/small.json --emit=c | FileCheck %s
#
# The program as a person would have written it: places by name, a loop for what repeats, a guard before what
# cannot be undone, the line of the source over what it became, a kernel beside its formula. The
# step stands before the tables.
# CHECK: /* line: compiled by mgc {{.*}}emit_c.mg, layout default, device small.
# CHECK: #include "abi.h"
# CHECK: extern mg_kernel d_cross_entropy; /* y = a + sum(f64(x) over batch, seq) * 0.16666666666666666 */
# CHECK: extern mg_kernel k_sgd; /* momentum' = momentum * 0.9 + x; p' = p - momentum' * f32(lr) */
# CHECK: #define P_embed (base + 0)
# CHECK: #define X_train_tokens(i) (base + {{[0-9]+}} + (int64_t)(i) * 16) /* i32[batch, seq=4] */
# CHECK: void mg_step(mg_run *r)
# CHECK: for (int64_t m = 0; m < 2; m++) {
# CHECK: /* emit_c.mg:[[#LINE:]]  loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens)) */
# CHECK-NEXT: mg_gather(r, {{[0-9]+}}, &{{.*}}, P_embed, (const int32_t *)(X_train_tokens(m)), A_{{.*}});
# CHECK: if (!mg_guard(
# CHECK-NEXT: return;
# CHECK: The optimizer: sgd
# CHECK: LAUNCH({{[0-9]+}}, k_sgd, {{.*}} S_momentum_embed, P_embed);
# CHECK: void mg_eval(mg_run *r)
# CHECK: void mg_sample(mg_run *r)
# CHECK: #define base 0
# CHECK: #define OF_embed .name = "embed", .where = AT([[#LINE - 1]]), .dtype = MG_F32,
# CHECK: PARAM(OF_embed, P_embed, MG_INIT_NORMAL, 0, 0.1),
# CHECK: static const mg_action actions[] = {
# CHECK: const mg_program mg_main = {
# CHECK-NEXT: .abi = MG_ABI, .runtime = &MG_ABI_OBJECT,
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
