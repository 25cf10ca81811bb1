/* blocks.c - see blocks.h.
 *
 *   before:  m' = f(m, g)                            m: f32
 *   after:   w = (cast q) a                          q: dynamic8 or udynamic8, a: f32 for each
 * block m' = f(w, g) a' = max |m'| over a block;  q' = cast (m' / a')
 *
 * The parameter's new value is made of m', not of what is kept of it. This is the blockwise 8-bit
 * Adam of bitsandbytes (Dettmers et al.: 8-bit optimizers via block-wise quantization; 2022). */
#include "passes/step/blocks.h"
#include "ir/external.h"
#include "passes/dim_rules.h"

bool blocks_fit(const Goal *g, const Tensor *t)
{
    double n = 1;
    for (int i = 0; i < t->external_rank; i++)
        n *= t->part_of && i == t->part_dim ? (double)t->part_of : (double)external_size(t, i);
    return dtype_is_dynamic(g->state) && t->type.rank > t->stacked && n >= (double)g->state_least;
}

/* The size of the parts of a dim of n, each of `behind` elements. */
static int64_t part_of_dim(int64_t n, int64_t behind)
{
    int64_t c = BLOCK / behind;
    while (n % c)
        c--;
    if (c * behind >= BLOCK / 4)
        return c;
    for (c = BLOCK / behind + 1; n % c;)
        c++;
    return c;
}

Blocks blocks_of(Module *m, const Tensor *t)
{
    Blocks l = {.outer.size = 1};
    int64_t behind = 1;
    int i = t->type.rank - 1;
    for (; i >= t->stacked && behind * t->type.dims[i].size <= BLOCK; i--)
        behind *= t->type.dims[i].size;
    const int64_t part = i >= t->stacked ? part_of_dim(t->type.dims[i].size, behind) : 1;
    if (part > 1) {
        const Dim d = t->type.dims[i];
        l.inner = (Dim){.name = d.name, .size = part};
        l.outer = dim_part(m, d, "block", t->type.rank < MAX_RANK ? d.size / part : 1);
        if (l.outer.size == 1)
            l.inner.size = d.size;
        else
            rules_extend(m, d.name, &l.outer.name, 1);
        l.over.dim[l.over.n++] = l.inner;
    }
    for (i++; i < t->type.rank; i++)
        l.over.dim[l.over.n++] = t->type.dims[i];
    return l;
}

static Value as_view(Builder *b, Op op, const Blocks *l, Value x)
{
    const Attrs a = {.dim = l->inner, .to = l->outer};
    return l->outer.size > 1 ? build(b, op, &a, 1, &x) : x;
}

Value blocks_split(Builder *b, const Blocks *l, Value x)
{
    return as_view(b, OP_split, l, x);
}

Value blocks_merged(Builder *b, const Blocks *l, Value x)
{
    return as_view(b, OP_merge, l, x);
}

/* ---- states ---------------------------------------------------------------------------------- */

static int64_t blocks_in(const Tensor *t)
{
    int64_t n = 1;
    for (int i = t->stacked; i < t->type.rank; i++)
        n *= t->type.dims[i].size;
    return n;
}

/* The blocks of the parts before this one, and of all. */
static void place_in_whole(Module *m, const Tensor *p, Tensor *t)
{
    t->part_dim = 0;
    t->part_at = t->part_of = 0;
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *other = &m->tensors.data[i];
        if (other->external != p->external || other->slot)
            continue;
        const Blocks l = blocks_of(m, other);
        int64_t n = blocks_in(other);
        for (int k = 0; k < l.over.n; k++)
            n /= l.over.dim[k].size;
        t->part_of += n;
        t->part_at += other->part_at < p->part_at ? n : 0;
    }
}

/* The absmax of each block, in files a vector for each tensor, in the order of blocks as stored. */
static Tensor absmax_of(Module *m, const Tensor *state, const Blocks *l)
{
    const Type all = state->type;
    Tensor t = *state;
    t.type = (Type){.dtype = all.dtype};
    for (int i = 0; i < all.rank; i++) {
        const bool split = l->outer.size > 1 && all.dims[i].name == l->inner.name;
        if (!split && i >= t.stacked && dims_have(&l->over, all.dims[i].name))
            continue;
        const int at = t.type.rank++;
        t.type.dims[at] = split ? l->outer : all.dims[i];
        t.valid[at] =
            split ? (state->valid[i] + l->inner.size - 1) / l->inner.size : state->valid[i];
    }
    const int rank = t.type.rank - t.stacked;
    for (int i = 0; i < rank && i < MAX_RANK; i++)
        t.order[i] = (uint8_t)(t.stacked + i);
    t.merge[0] = (uint8_t)rank;
    t.external_rank = rank || t.part_of;
    if (t.part_of)
        place_in_whole(m, &m->tensors.data[state->parameter], &t);
    t.absmax = true;
    return t;
}

BlockState blocks_state(Update *u, uint32_t of, const StateInfo *info, const Blocks *l)
{
    Module *m = u->m;
    BlockState s = {0};
    s.codes = up_state(u, of, info, NULL, &s.tensor);
    m->tensors.data[s.tensor].type.dtype = m->values.data[s.codes].type.dtype = DT_dynamic8;
    Tensor t = absmax_of(m, &m->tensors.data[s.tensor], l);
    t.type.dtype = m->train.compute;
    const char *slot = arena_printf(m->arena, "%s_absmax", info->slot);
    const char *name =
        arena_printf(m->arena, "%s.%s", slot, name_str(m->names, m->tensors.data[of].name));
    t.slot = name_intern(m->names, slot);
    t.name = name_intern(m->names, name);
    s.absmax = (uint32_t)m->tensors.n;
    vec_push(m->arena, &m->tensors, t);
    vec_push(m->arena, &u->fn->args, ((FnArg){ARG_state, s.absmax}));
    const Value absmax = region_arg(m, u->fn->body, t.type, t.name);
    const Value unit = build_cast(&u->b, blocks_split(&u->b, l, s.codes), m->train.compute);
    s.wide = build2(&u->b, OP_mul, unit, absmax);
    return s;
}

void blocks_new_value(Update *u, const BlockState *s, const Blocks *l, Value v)
{
    Builder *b = &u->b;
    Module *m = u->m;
    const Attrs over = {.over = l->over};
    v = up_finite(u, build_as(b, v, *type_of(m, s->wide)), s->wide);
    const Value size = build1(b, OP_abs, v), absmax = build(b, OP_rmax, &over, 1, &size);
    const DType t = type_of(m, v)->dtype;
    Value by[] = {build2(b, OP_eq, absmax, build_const(b, t, 0)), build_const(b, t, 1), absmax};
    by[0] = build(b, OP_select, NULL, 3, by); /* a block of zeros stays one */
    const DType kept = m->tensors.data[s->tensor].type.dtype;
    const Value codes = build_cast(b, build2(b, OP_div, v, by[0]), kept);
    up_give(u, s->tensor, blocks_merged(b, l, codes));
    up_give(u, s->absmax, build_as(b, absmax, m->tensors.data[s->absmax].type));
}

/* ---- signs ----------------------------------------------------------------------------------- */

enum { LOOKS = 1000 /* at instructions of a rule, before it is left undecided */ };

typedef struct Signs {
    const Module *m;
    const BlockState *states;
    const bool *which; /* what is assumed of states */
    int n, looks;
} Signs;

/* Is v a number that is known here? */
static bool number_of(const Module *m, Value v, double *x)
{
    const Ins *i = m->values.data[v].def;
    double in[3] = {0};
    if (!i)
        return false;
    if (i->op == OP_const) {
        *x = i->attrs.value;
        return true;
    }
    if (i->op == OP_cast)
        return number_of(m, i->in[0], x);
    for (uint32_t k = 0; k < i->nin; k++)
        if (i->nin > 2 || !number_of(m, i->in[k], &in[k]))
            return false;
    if (!op_is(i->op, POINTWISE))
        return false;
    *x = op_evaluate(i->op, in[0], in[1], in[2]);
    return true;
}

/* Is v at least 0, or no number? */
static bool at_least_0(Signs *s, Value v)
{
    const Ins *i = s->m->values.data[v].def;
    double x;
    for (int k = 0; k < s->n; k++)
        if (s->states[k].wide == v)
            return s->which[k];
    if (!i || s->looks++ > LOOKS)
        return false;
    if (number_of(s->m, v, &x))
        return x >= 0;
    if (OP_AMONG(i->op, OP_abs, OP_sqrt, OP_rsqrt, OP_exp, OP_sigmoid) ||
        (i->op == OP_mul && i->in[0] == i->in[1]))
        return true;
    if (OP_AMONG(i->op, OP_cast, OP_copy))
        return at_least_0(s, i->in[0]);
    if (OP_AMONG(i->op, OP_mul, OP_add, OP_div, OP_min))
        return at_least_0(s, i->in[0]) && at_least_0(s, i->in[1]);
    if (i->op == OP_max)
        return at_least_0(s, i->in[0]) || at_least_0(s, i->in[1]);
    return i->op == OP_select && at_least_0(s, i->in[1]) && at_least_0(s, i->in[2]);
}

void blocks_signs(const Module *m, const BlockState *states, const Value *new, bool *which, int n)
{
    bool again = true;
    for (int k = 0; k < n; k++)
        which[k] = states[k].wide != 0;
    while (again) {
        again = false;
        for (int k = 0; k < n; k++) {
            Signs s = {m, states, which, n, 0};
            if (!which[k] || at_least_0(&s, new[k]))
                continue;
            which[k] = false;
            again = true;
        }
    }
}
