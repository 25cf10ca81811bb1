/* class.c - the class of each action of a GPU program, as base/classes.def has them: what measured
 * times are compared by. Sizes are those of the program: an action is large if it does at least a
 * quarter of what the largest of its class does. */
#include "plan/class.h"

#include "base/measured.h"

static const double LARGE = 0.25;

typedef struct Classes {
    const Plan *p;
    Arena *a;
    double most[MEASURE_count]; /* FLOPs or bytes of the largest of all programs */
} Classes;

/* Does it write a parameter? */
static bool updates(const Plan *p, const Action *a)
{
    for (int i = 0; i < a->noperands; i++)
        if (a->operand[i].write && p->buffers.data[a->operand[i].at.buffer].owner == OWN_params)
            return true;
    return false;
}

static ClassId product_class(const Plan *p, mg_dtype t)
{
    return mg_dtype_is_fp8(t)      ? MEASURE_product_fp8
           : t == MG_BF16          ? MEASURE_product_bf16
           : t == MG_F16           ? MEASURE_product_f16
           : t == MG_F64           ? MEASURE_product_f64
           : p->module->train.tf32 ? MEASURE_product_tf32
                                   : MEASURE_product_f32;
}

static ClassId attention_class(const Action *a)
{
    const bool bf16 = a->attention.dtype == MG_BF16;
    return a->kind == ACT_attention ? bf16 ? MEASURE_attention_bf16 : MEASURE_attention
           : bf16                   ? MEASURE_gradient_bf16
                                    : MEASURE_gradient;
}

static ClassId class_of(const Plan *p, const Action *a)
{
    switch (a->kind) {
    case ACT_kernel:
        return action_on_host(a) ? MEASURE_host : updates(p, a) ? MEASURE_update : MEASURE_rows;
    case ACT_gemm:
        return product_class(p, a->gemm.dtype);
    case ACT_conv:
        return product_class(p, a->conv.dtype);
    case ACT_grouped:
    case ACT_grouped_weight:
        return product_class(p, a->grouped.dtype);
    case ACT_attention:
    case ACT_attention_grad:
    case ACT_attention_bias_grad:
        return attention_class(a);
    case ACT_xent:
    case ACT_xent_grad:
        return MEASURE_entropy;
    case ACT_head:
    case ACT_head_loss:
        return MEASURE_head;
    case ACT_gather:
    case ACT_scatter_add:
    case ACT_put:
        return MEASURE_tables;
    case ACT_top:
    case ACT_slots:
    case ACT_ends:
    case ACT_dispatch:
    case ACT_combine:
    case ACT_combine_weight:
        return MEASURE_experts;
    case ACT_tile_scale:
    case ACT_round_tiles:
        return MEASURE_rows;
    case ACT_random:
        return MEASURE_random;
    case ACT_comm:
        return !action_sends(a) ? MEASURE_copies
               : a->comm.piece  ? MEASURE_copied
                                : MEASURE_collective;
    case ACT_fetch:
        return MEASURE_fetch;
    case ACT_offload:
        return MEASURE_offload;
    case ACT_copy:
    case ACT_zero:
    case ACT_receive:
    case ACT_send:
        return MEASURE_copies;
    case ACT_loop:
    case ACT_end:
    case ACT_phase:
    case ACT_guard: /* the host's */
    case ACT_count:
        break;
    }
    return MEASURE_count;
}

static double amount(const Action *a)
{
    return a->kind == ACT_gemm ? a->flops : a->bytes_moved;
}

static const char *precision(const Plan *p, const Action *a)
{
    return a->attention.dtype == MG_F16   ? "f16"
           : a->attention.dtype == MG_F64 ? "f64"
           : p->module->train.tf32        ? "tf32"
                                          : "f32";
}

/* The class with its detail. A product is also deep if its sum is four times as long as either side
 * of the result, which then has few tiles. */
static const char *text_of(const Classes *c, const Action *a, ClassId id)
{
    const char *name = class_info[id].name;
    const mg_gemm_desc *g = &a->gemm;
    const mg_attention_desc *d = &a->attention;
    const bool large = amount(a) >= LARGE * c->most[id];
    if (a->kind == ACT_gemm)
        return arena_printf(c->a, "%s: %s", name,
                            large                                  ? "large"
                            : g->k >= 4 * g->m && g->k >= 4 * g->n ? "deep"
                                                                   : "small");
    if (id == MEASURE_attention_bf16 || id == MEASURE_gradient_bf16)
        return arena_printf(c->a, "%s: head %lld, %lld keys", name, (long long)d->head,
                            (long long)d->keys);
    if (id == MEASURE_attention || id == MEASURE_gradient)
        return arena_printf(c->a, "%s: %s, head %lld, %lld keys", name, precision(c->p, a),
                            (long long)d->head, (long long)d->keys);
    return id == MEASURE_rows || id == MEASURE_update || id == MEASURE_host ||
                   id == MEASURE_collective || id == MEASURE_fetch || id == MEASURE_offload
               ? arena_printf(c->a, "%s: %s", name, large ? "large" : "small")
               : name;
}

const char **plan_classes(const Plan *p, Arena *a)
{
    Program *const *const all = p->programs;
    const char **text = NEW_ARRAY(a, const char *, p->nactions + 1);
    Classes c = {.p = p, .a = a};
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < PLAN_PROGRAMS; k++)
            for (size_t i = 0; all[k] && i < all[k]->actions.n; i++) {
                const Action *at = &all[k]->actions.data[i];
                const ClassId id = class_of(p, at);
                if (id == MEASURE_count || at->id >= p->nactions)
                    continue;
                if (pass)
                    text[at->id] = text_of(&c, at, id);
                else if (amount(at) > c.most[id])
                    c.most[id] = amount(at);
            }
    return text;
}
