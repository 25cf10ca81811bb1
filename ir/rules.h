/* rules.h - one question to the rule of an op: private to rules*.c. */
#ifndef MGC_RULES_H
#define MGC_RULES_H

#include "ir/ir.h"

typedef struct Rule {
    Module *m;
    const Attrs *attrs;
    int nin;
    const Type *in[RULE_OPERANDS];
    Type *out;
} Rule;

#define WRONG(r, ...) return arena_printf((r)->m->arena, __VA_ARGS__)

static inline const char *rule_dim(const Rule *r, Name n)
{
    return name_str(r->m->names, n);
}

static inline const char *rule_axes(const Rule *r, Axes axes)
{
    return mesh_axes_text(r->m, axes);
}

/* t, called `side`, has d, of that size. */
const char *rule_has_dim(Rule *r, const Type *t, Dim d, const char *side);

/* Appends the dims of t that are not in `out` and not in `without`. */
const char *rule_add_dims(Rule *r, Type *out, const Type *t, const DimList *without);
/* t has the dims of the list, each of which is listed once. */
const char *rule_all_have(Rule *r, const Type *t, const DimList *l, const char *side);
const char *rule_is_float(Rule *r, const Type *t, const char *side);
/* Operand nth has the dims of t, in any order, and this dtype. */
const char *rule_has_type(Rule *r, int nth, const Type *t, DType dtype, const char *what);

/* Operand nth, what is added to, has the result's type; of halves it may be f32. */
const char *rule_added(Rule *r, int nth);

/* rules_mesh.c: sets over which axes the results, whose dims are known, are partial. */
const char *rule_over_mesh(Rule *r, Op op);

/* comm.c */
#define COLLECTIVE(name, ...) const char *type_##name(Rule *r);
#include "ir/ops.def"

/* rules_dims.c */
const char *type_rename(Rule *r);
const char *type_pick(Rule *r);
const char *type_window(Rule *r);
const char *type_reindex(Rule *r);
const char *type_split(Rule *r);
const char *type_merge(Rule *r);
const char *type_join(Rule *r);

/* rules_tiles.c */
const char *type_tile_scale(Rule *r);
const char *type_round_tiles(Rule *r);
/* Operands 2 and 3 of a product of fp8 have a scale for each of its tiles. */
const char *rule_tiles(Rule *r);

/* rules_experts.c */
const char *type_top(Rule *r);
const char *type_slots(Rule *r);
const char *type_dispatch(Rule *r);
const char *type_combine(Rule *r);
const char *type_combine_weight(Rule *r);
const char *type_ends(Rule *r);
const char *type_grouped(Rule *r);
const char *type_grouped_weight(Rule *r);

/* rules_attention.c */
const char *type_attention(Rule *r);
const char *type_attention_grad(Rule *r);
const char *type_attention_bias_grad(Rule *r);

#endif
