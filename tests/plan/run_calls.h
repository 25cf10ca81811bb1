/* run_calls.h - library calls on memory, from the descriptors of runtime/abi.h; see run_plan.h. */
#ifndef MGC_TESTS_RUN_CALLS_H
#define MGC_TESTS_RUN_CALLS_H

#include "plan/plan.h"

DType type_of_code(mg_dtype t);
void run_conv(const mg_conv_desc *d, void *const *p);
void run_gemm(const mg_gemm_desc *d, void *const *p);
/* The bias of scores; keys that queries see: how many, and from which on; each may be NULL. */
typedef struct Sight {
    const void *bias;
    const int32_t *seen, *first;
} Sight;
void run_attention(const mg_attention_desc *d, void *const *p, const Sight *see);
void run_attention_grad(const mg_attention_desc *d, void *const *p, const Sight *see);
void run_attention_bias_grad(const mg_attention_desc *d, void *const *p, const Sight *see);
void run_xent(const mg_xent_desc *d, void *const *p);
void run_xent_grad(const mg_xent_desc *d, void *const *p);
void run_head(const mg_head_desc *d, void *const *p, bool gradients);
void run_gather(const mg_gather_desc *d, void *const *p);
void run_scatter_add(const mg_gather_desc *d, void *const *p);
void run_put(const mg_gather_desc *d, void *const *p);
void run_top(const mg_top_desc *d, void *const *p);
/* kind, and how many operands there are: a weight may be missing */
void run_experts(ActionKind kind, const mg_experts_desc *d, int n, void *const *p);
void run_grouped(const mg_grouped_desc *d, bool weight, void *const *p);
void run_tile_scale(const mg_tile_scale_desc *d, void *const *p);
void run_round_tiles(const mg_round_tiles_desc *d, void *const *p);
/* By what a term of a product of fp8 is multiplied: s has the scales of A and of B. */
double run_scales(const mg_gemm_desc *d, void *const *s, int64_t i, int64_t j, int64_t k);
void run_random(const mg_random_desc *d, void *const *p);
/* Runs a collective of all ranks of the mesh. x, y: by rank; t: the type of their elements. */
void run_comm(const Module *m, const mg_comm_desc *d, DType t, void *const *x, void *const *y);

#endif
