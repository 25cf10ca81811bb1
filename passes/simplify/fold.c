/* fold.c - constants are computed, exact identities applied; part of simplify.
 *
 * Only identities that hold for every float are here (x * 0 is not one of them: x may be infinite).
 * x + 0 counts as exact: it differs from x in the sign of a zero. */
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

#include <math.h>

typedef struct Fold {
    Module *m;
    Arena *tmp;
    ValueMap map;
    Region *region;     /* the one being rebuilt: new constants go to its end */
    const bool *picked; /* per value that there was, in a scan's body: picks alone read it */
    size_t values;
    bool changed;
} Fold;

static const Ins *def(const Fold *f, Value v)
{
    return f->m->values.data[v].def;
}

static const Ins *def_by(const Fold *f, Value v, Op op)
{
    const Ins *i = def(f, v);
    return i && i->op == op ? i : NULL;
}

static const Type *out_type(const Fold *f, const Ins *i)
{
    return type_of(f->m, i->out[0]);
}

/* The instruction's value is x: in its place, or as a copy where the dims differ. */
static Value becomes(Fold *f, Ins *i, Value x)
{
    if (type_equal(type_of(f->m, x), out_type(f, i)))
        return x;
    if (i->op != OP_copy || i->in[0] != x) {
        i->op = OP_copy;
        i->attrs = (Attrs){0};
        i->nin = 1;
        i->in[0] = x;
        f->changed = true;
    }
    return 0;
}

/* The instruction is op of these operands instead; its result's type stays. */
static Value turns(Fold *f, Ins *i, Op op, int nin, Value x, Value y)
{
    Value in[] = {x, y};
    i->op = op;
    i->nin = (uint32_t)nin;
    for (int k = 0; k < nin; k++)
        i->in[k] = in[k];
    f->changed = true;
    return 0;
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool exact_in_double(Op op, DType t)
{
    return dtype_is_float(t) || t == DT_bool || (op != OP_div && op != OP_pow && op != OP_sqrt);
}

static Value fold_constant(Fold *f, const Ins *i)
{
    double x[3] = {0};
    const Type *t = out_type(f, i);
    if (!op_is(i->op, POINTWISE) || t->rank || !exact_in_double(i->op, t->dtype))
        return 0;
    for (uint32_t k = 0; k < i->nin; k++) {
        const Ins *c = def_by(f, i->in[k], OP_const);
        if (!c)
            return 0;
        x[k] = c->attrs.value;
    }
    Builder b = builder_at(f->m, f->region, i);
    return build_const(&b, t->dtype, op_evaluate(i->op, x[0], x[1], x[2]));
}

/* Is every value of `from` a value of `to`? */
static bool lossless(DType from, DType to)
{
    switch (to) {
    case DT_f64:
        return from != DT_i64;
    case DT_f32:
        return dtype_is_narrow(from) || from == DT_bool || from == DT_u8;
    case DT_i64:
        return from == DT_i32 || from == DT_bool || from == DT_u8;
    case DT_i32:
        return from == DT_bool || from == DT_u8;
    case DT_bf16:
    case DT_f16:
        return dtype_is_fp8(from);
    case DT_e4m3:
    case DT_e5m2:
    case DT_e8m0:
    case DT_dynamic8:
    case DT_udynamic8:
    case DT_u8:
    case DT_bool:
    case DT_none:
    case DT_count:
        break;
    }
    return false;
}

static Value fold_cast(Fold *f, Ins *i)
{
    DType from = type_of(f->m, i->in[0])->dtype, to = out_type(f, i)->dtype;
    if (from == to)
        return becomes(f, i, i->in[0]);
    const Ins *c = def(f, i->in[0]);
    if (c && c->op == OP_const) {
        Builder b = builder_at(f->m, f->region, i);
        double x = c->attrs.value;
        return build_const(&b, to, dtype_is_float(to) ? x : to == DT_bool ? x != 0 : trunc(x));
    }
    if (c && c->op == OP_cast && lossless(type_of(f->m, c->in[0])->dtype, from)) {
        if (type_of(f->m, c->in[0])->dtype == to)
            return becomes(f, i, c->in[0]);
        return turns(f, i, OP_cast, 1, c->in[0], 0);
    }
    return 0;
}

/* ---- identities ------------------------------------------------------------------------------ */

static bool is_number(const Fold *f, Value v, double x)
{
    double c;
    return value_is_const(f->m, v, &c) && c == x;
}

static Value fold_add(Fold *f, Ins *i)
{
    const Ins *x = def_by(f, i->in[0], OP_neg), *y = def_by(f, i->in[1], OP_neg);
    if (is_number(f, i->in[1], 0))
        return becomes(f, i, i->in[0]);
    if (is_number(f, i->in[0], 0))
        return becomes(f, i, i->in[1]);
    if (y)
        return turns(f, i, OP_sub, 2, i->in[0], y->in[0]);
    return x ? turns(f, i, OP_sub, 2, i->in[1], x->in[0]) : 0;
}

static Value fold_sub(Fold *f, Ins *i)
{
    const Ins *y = def_by(f, i->in[1], OP_neg);
    if (is_number(f, i->in[1], 0))
        return becomes(f, i, i->in[0]);
    return y ? turns(f, i, OP_add, 2, i->in[0], y->in[0]) : 0;
}

static Value fold_mul(Fold *f, Ins *i)
{
    for (int k = 0; k < 2; k++) {
        if (is_number(f, i->in[k], 1))
            return becomes(f, i, i->in[1 - k]);
        if (is_number(f, i->in[k], -1) && type_of(f->m, i->in[1 - k])->rank == out_type(f, i)->rank)
            return turns(f, i, OP_neg, 1, i->in[1 - k], 0);
    }
    return 0;
}

/* The sum of the negative is the negative of the sum, which has fewer elements. */
static Value fold_sum(Fold *f, Ins *i)
{
    const Ins *x = def_by(f, i->in[0], OP_neg);
    if (!x)
        return 0;
    Builder b = builder_at(f->m, f->region, i);
    Type t = *out_type(f, i);
    Ins *sum = build_typed(&b, OP_sum, &i->attrs, 1, x->in, 1, &t, NULL);
    i->attrs = (Attrs){0};
    return turns(f, i, OP_neg, 1, sum->out[0], 0);
}

/* a / 1, pow a 1 */
static Value fold_one(Fold *f, Ins *i)
{
    return is_number(f, i->in[1], 1) ? becomes(f, i, i->in[0]) : 0;
}

static Value fold_neg(Fold *f, Ins *i)
{
    return def_by(f, i->in[0], OP_neg) ? becomes(f, i, def(f, i->in[0])->in[0]) : 0;
}

static Value fold_select(Fold *f, Ins *i)
{
    double c;
    return value_is_const(f->m, i->in[0], &c) ? becomes(f, i, i->in[c != 0 ? 1 : 2]) : 0;
}

static Value fold_copy(Fold *f, Ins *i)
{
    if (def_by(f, i->in[0], OP_copy))
        return turns(f, i, OP_copy, 1, def(f, i->in[0])->in[0], 0);
    return becomes(f, i, i->in[0]);
}

static Value fold_stop(Fold *f, Ins *i)
{
    return becomes(f, i, i->in[0]);
}

/* Every element at its own index. */
static Value fold_reindex(Fold *f, Ins *i)
{
    const Attrs *a = &i->attrs;
    const bool itself = a->over.n == 1 && a->over.dim[0].name == a->dim.name &&
                        a->over.dim[0].size == a->dim.size && a->factors.by[0] == 1 && a->at == 0 &&
                        a->every == 1;
    return itself ? becomes(f, i, i->in[0]) : 0;
}

static Value fold_window(Fold *f, Ins *i)
{
    return type_equal(out_type(f, i), type_of(f->m, i->in[0])) ? becomes(f, i, i->in[0]) : 0;
}

/* ---- picks ----------------------------------------------------------------------------------- */

static void note_uses(void *ctx, Value *use)
{
    ((bool *)ctx)[*use] = false;
}

/* Values of a scan's body of which nothing but picks reads something. */
static const bool *only_picked(const Fold *f, const Region *r)
{
    const size_t n = f->m->values.n;
    bool *picked = NEW_ARRAY(f->tmp, bool, n);
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_pick)
            picked[r->ins.data[k]->in[0]] = true;
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op != OP_pick)
            each_use(r->ins.data[k], note_uses, picked);
    for (size_t k = 0; k < r->results.n; k++)
        picked[r->results.data[k]] = false;
    return picked;
}

/* pick(x + y) is pick(x) + pick(y): gates of a recurrence are then computed by one kernel, each
 * from its own part of a product. */
static Value fold_pick(Fold *f, Ins *i)
{
    const Ins *d = i->in[0] < f->values ? def(f, i->in[0]) : NULL;
    if (!f->picked || !d || d->home != f->region || !f->picked[i->in[0]] ||
        !(op_is(d->op, POINTWISE) ||
          (d->op == OP_cast && dtype_is_half(type_of(f->m, d->in[0])->dtype))))
        return 0;
    Builder b = builder_at(f->m, f->region, i);
    b.backward = d->backward;
    b.again = d->again;
    Value in[3] = {0};
    for (uint32_t k = 0; k < d->nin; k++) {
        in[k] = d->in[k];
        if (type_find(type_of(f->m, in[k]), i->attrs.dim.name) >= 0)
            in[k] = build(&b, OP_pick, &i->attrs, 1, &in[k]);
    }
    const Type t = *out_type(f, i);
    return build_typed(&b, d->op, &d->attrs, (int)d->nin, in, 1, &t, NULL)->out[0];
}

static Value fold_identity(Fold *f, Ins *i)
{
    static Value (*const fold[OP_count])(Fold *, Ins *) = {
        [OP_add] = fold_add,       [OP_sub] = fold_sub,       [OP_mul] = fold_mul,
        [OP_div] = fold_one,       [OP_pow] = fold_one,       [OP_neg] = fold_neg,
        [OP_select] = fold_select, [OP_sum] = fold_sum,       [OP_cast] = fold_cast,
        [OP_copy] = fold_copy,     [OP_stop] = fold_stop,     [OP_reindex] = fold_reindex,
        [OP_pick] = fold_pick,     [OP_window] = fold_window,
    };
    return fold[i->op] ? fold[i->op](f, i) : 0;
}

/* A pointwise op broadcasts and permutes by itself: it reads what a copy reads, as long as all
 * dims of its result still come from some operand. */
static void read_through(Fold *f, Ins *i)
{
    if (!op_is(i->op, POINTWISE) || i->op == OP_copy)
        return;
    for (uint32_t k = 0; k < i->nin; k++) {
        const Ins *c = def_by(f, i->in[k], OP_copy);
        if (!c)
            continue;
        const Type *t = out_type(f, i);
        bool covered = true;
        for (int d = 0; d < t->rank; d++) {
            bool found = type_find(type_of(f->m, c->in[0]), t->dims[d].name) >= 0;
            for (uint32_t o = 0; o < i->nin; o++)
                found |= o != k && type_find(type_of(f->m, i->in[o]), t->dims[d].name) >= 0;
            covered &= found;
        }
        if (covered) {
            i->in[k] = c->in[0];
            f->changed = true;
        }
    }
}

/* ---- walking --------------------------------------------------------------------------------- */

/* A carried value that no iteration changes is replaced by its initial value. */
static void fold_carried(Fold *f, const Ins *i)
{
    for (size_t k = 0; k < (size_t)i->attrs.carried; k++) {
        Value arg = i->body->args.data[k];
        double fill;
        if (i->body->results.data[k] != arg || map_get(&f->map, arg) != arg)
            continue;
        if (i->attrs.relay && !value_is_const(f->m, i->in[k], &fill))
            continue; /* on another rank there is no such value */
        map_set(f->m, &f->map, arg, i->in[k]);
        map_set(f->m, &f->map, i->out[k], i->in[k]);
        f->changed = true; /* a loop around this one may carry it unchanged too */
    }
}

/* A stack of slices that iterations hand on as they are is the stack that they are of. */
static void fold_stacked(Fold *f, const Ins *i)
{
    for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nout; k++)
        for (uint32_t j = (uint32_t)i->attrs.carried; j < i->nin; j++)
            if (i->body->results.data[k] == i->body->args.data[j] &&
                type_equal(type_of(f->m, i->out[k]), type_of(f->m, i->in[j]))) {
                map_set(f->m, &f->map, i->out[k], i->in[j]);
                f->changed = true; /* and nothing uses the result any more */
            }
}

static void fold_region(Fold *f, Region *r)
{
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    const bool scan = r->owner && r->owner->attrs.scan;
    const bool *picked = scan ? only_picked(f, r) : NULL;
    const size_t values = f->m->values.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        for (uint32_t x = 0; x < i->nin; x++)
            i->in[x] = map_get(&f->map, i->in[x]);
        if (i->op == OP_repeat) {
            fold_carried(f, i);
            fold_region(f, i->body);
            fold_stacked(f, i);
        }
        f->region = r;
        f->picked = picked;
        f->values = values;
        Value v = i->nout ? fold_constant(f, i) : 0; /* a guard has no result */
        if (!v && i->nout)
            v = fold_identity(f, i);
        if (v) {
            map_set(f->m, &f->map, i->out[0], v);
            f->changed = true;
            continue;
        }
        read_through(f, i);
        vec_push(f->m->arena, &r->ins, i);
    }
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(&f->map, r->results.data[k]);
}

bool simplify_fold(Module *m, Fn *fn)
{
    Fold f = {.m = m, .tmp = arena_new()};
    fold_region(&f, fn->body);
    arena_free(f.tmp);
    return f.changed;
}
