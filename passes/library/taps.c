/* taps.c - sums and maxima over a few taps are written out, a term for each.
 *
 *   %t = reindex %x {over=[seq, tap]}               %a = mul (reindex %x {at=0}), (pick %w {at=0})
 *   %y = sum (mul %t, %w) over tap             ->   %b = mul (reindex %x {at=-1}), (pick %w {at=1})
 *                                                   %y = add %a, %b
 *
 *   %s = sum over across, of what is read along a row       %s = add (reindex %p00), (reindex
 * %p01), ... %y = sum (reindex %s {over=[row, down]}) over down  ->  where each reindex reads what
 * is stored
 *
 * A reindex by several dims shows each element once for each tap. Stored it would be so many times
 * as large as %x; and a kernel that computed it as it goes would reduce dims that are not innermost
 * in memory, a few terms for each result. Written out, the terms are values of one kernel, which
 * reads %x at each tap where it is: pools, convolutions of each channel by itself, and the
 * gradients of both. Terms are added in the order of the sum. Products that are convolutions have
 * been taken before (convolutions.c).
 *
 * A term is the instruction with one index of the taps: what has no such dim is as it was, and of a
 * value that is computed otherwise the element is picked. A reindex of such a term goes before what
 * is linear in what it reads, a sum of terms or a product with a weight, so that it reads a stored
 * value; there 0 times a weight that is no number is none, and no longer 0. */
#include "passes/passes.h"
#include "passes/simplify/simplify.h"

#include <string.h>

enum {
    FEW = 64,    /* taps, at most */
    SMALL = 16,  /* times as many elements as a weight has, at least, has the sum */
    TERMS = 400, /* instructions that stand for one sum, at most */
    DEPTH = 12   /* of an expression */
};

/* An index for each of some dims. */
typedef struct Place {
    DimList dims;
    int64_t index[MAX_RANK];
    bool backward, again;
    ValueMap map; /* instructions that were written for it */
} Place;

typedef struct Pass {
    Module *m;
    Region *r;
    Builder b;
    ValueMap map;
    ValueMap turned;  /* weights, with taps outside */
    Value fresh;      /* values from this one on are terms */
    int64_t elements; /* of the sum at hand */
    VEC(Place *) places;
    Arena *tmp;
} Pass;

static const Type *type_at(const Pass *p, Value v)
{
    return type_of(p->m, v);
}

static Ins *made_here(const Pass *p, Value v)
{
    Ins *i = p->m->values.data[v].def;
    return i && i->home == p->r ? i : NULL;
}

static bool has_any(const Type *t, const DimList *l)
{
    bool any = false;
    for (int i = 0; i < l->n; i++)
        any |= type_find(t, l->dim[i].name) >= 0;
    return any;
}

/* Is i what it is of an element, of the elements of its operands? */
static bool is_pointwise(const Ins *i)
{
    return op_is(i->op, POINTWISE) || i->op == OP_cast;
}

/* ---- what a sum is of ------------------------------------------------------------------------ */

/* Those of the dims that are taps of this reindex: of the dims that it is by, the ones no larger
 * than another, which stays. False: it is by such dims alone, or by larger ones. */
static bool note_taps(const Ins *i, const DimList *dims, DimList *taps)
{
    const DimList *by = &i->attrs.over;
    int64_t stays = 0;
    for (int k = 0; k < by->n; k++)
        if (!dims_have(dims, by->dim[k].name) && by->dim[k].size > stays)
            stays = by->dim[k].size;
    for (int k = 0; k < by->n; k++) {
        const Dim d = by->dim[k];
        if (!dims_have(dims, d.name))
            continue;
        if (d.size > stays)
            return false;
        if (!dims_have(taps, d.name))
            taps->dim[taps->n++] = d;
    }
    return true;
}

/* Instructions that stand for a value at an index of `dims`, its own and those behind it; more than
 * TERMS: there are none. Adds those of the dims that are taps of a reindex to `taps`. */
static int terms_of(const Pass *p, Value old, const DimList *dims, int depth, DimList *taps)
{
    const Value v = map_get(&p->map, old);
    const Ins *i = made_here(p, v);
    int n = 1;
    if (!has_any(type_at(p, v), dims) || !i)
        return has_any(type_at(p, v), dims);
    if (depth == 0 || (i->op == OP_reindex && !note_taps(i, dims, taps)))
        return TERMS + 1;
    for (uint32_t k = 0; (is_pointwise(i) || i->op == OP_reindex) && k < i->nin && n <= TERMS; k++)
        n += terms_of(p, i->in[k], dims, depth - 1, taps);
    return n;
}

/* ---- terms ----------------------------------------------------------------------------------- */

static Place *place_for(Pass *p, const DimList *dims, const int64_t *index)
{
    for (size_t i = 0; i < p->places.n; i++) {
        Place *at = p->places.data[i];
        bool same =
            at->backward == p->b.backward && at->again == p->b.again && at->dims.n == dims->n;
        for (int k = 0; same && k < dims->n; k++)
            same = at->dims.dim[k].name == dims->dim[k].name && at->index[k] == index[k];
        if (same)
            return at;
    }
    Place *at = NEW(p->tmp, Place);
    *at = (Place){.dims = *dims, .backward = p->b.backward, .again = p->b.again};
    memcpy(at->index, index, (size_t)dims->n * sizeof *index);
    vec_push(p->tmp, &p->places, at);
    return at;
}

static int place_find(const Place *at, Name d)
{
    for (int i = 0; i < at->dims.n; i++)
        if (at->dims.dim[i].name == d)
            return i;
    return -1;
}

/* A weight with its taps outside, so that each element of a term is read beside the next. */
static Value turned(Pass *p, Value v, const DimList *taps)
{
    const Value known = map_get(&p->turned, v);
    Type t = *type_at(p, v), want = t;
    want.rank = 0;
    for (int inside = 0; inside < 2; inside++)
        for (int i = 0; i < t.rank; i++)
            if (dims_have(taps, t.dims[i].name) != inside)
                want.dims[want.rank++] = t.dims[i];
    if (known != v || type_equal(&want, &t) || type_elements(&t) * SMALL > p->elements)
        return known;
    const Value so = build_as(&p->b, v, want);
    map_set(p->m, &p->turned, v, so);
    return so;
}

static Value picked(Pass *p, Value whole, const Place *at)
{
    Value v = turned(p, whole, &at->dims);
    for (int i = 0; i < at->dims.n; i++) {
        const int k = type_find(type_at(p, v), at->dims.dim[i].name);
        if (k < 0)
            continue;
        const Attrs a = {.dim = type_at(p, v)->dims[k], .at = at->index[i]};
        v = build(&p->b, OP_pick, &a, 1, &v);
    }
    return v;
}

/* The result has the operands' dims, as far as they have others than those of the place. */
static Value again(Pass *p, const Ins *i, const Value *in, const Type *like, const DimList *gone)
{
    Type t = *like;
    t.rank = 0;
    for (int k = 0; k < like->rank; k++)
        if (!gone || !dims_have(gone, like->dims[k].name))
            t.dims[t.rank++] = like->dims[k];
    Ins *made = build_typed(&p->b, i->op, &i->attrs, (int)i->nin, in, 1, &t, NULL);
    made->exact = i->exact;
    return made->out[0];
}

/* May a reindex that reads along d go before i: is i, a term, linear in what is read, and is that
 * all operands but a weight? */
static bool goes_before(const Pass *p, const Ins *i, Name d)
{
    int with = 0;
    for (uint32_t k = 0; k < i->nin; k++)
        with += type_find(type_at(p, i->in[k]), d) >= 0;
    if (OP_AMONG(i->op, OP_add, OP_sub))
        return with == 2 && !i->exact;
    if (i->op == OP_mul)
        return with == 1;
    return OP_AMONG(i->op, OP_neg, OP_cast) && dtype_is_float(type_at(p, i->in[0])->dtype);
}

static Value reindexed(Pass *p, Value v, const Attrs *a)
{
    const Ins *i = v >= p->fresh ? made_here(p, v) : NULL;
    if (!i || !goes_before(p, i, a->dim.name))
        return build(&p->b, OP_reindex, a, 1, &v);
    Value in[2] = {0};
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = type_find(type_at(p, i->in[k]), a->dim.name) >= 0 ? reindexed(p, i->in[k], a)
                                                                  : i->in[k];
    if (i->op == OP_cast)
        return build_cast(&p->b, in[0], type_at(p, v)->dtype);
    return build(&p->b, i->op, NULL, (int)i->nin, in);
}

static Value term(Pass *p, Value v, Place *at);

/* A reindex with indices in the place of some of the dims that it is by. */
static Value shown(Pass *p, const Ins *i, Place *at)
{
    Attrs a = i->attrs;
    a.over.n = a.factors.n = 0;
    for (int k = 0; k < i->attrs.over.n; k++) {
        const int fixed = place_find(at, i->attrs.over.dim[k].name);
        if (fixed >= 0) {
            a.at += i->attrs.factors.by[k] * at->index[fixed];
            continue;
        }
        a.over.dim[a.over.n++] = i->attrs.over.dim[k];
        a.factors.by[a.factors.n++] = i->attrs.factors.by[k];
    }
    if (!a.over.n || place_find(at, a.dim.name) >= 0)
        return picked(p, i->out[0], at);
    return reindexed(p, term(p, i->in[0], at), &a);
}

/* A value at a place. */
static Value term(Pass *p, Value old, Place *at)
{
    const Value v = map_get(&p->map, old);
    const Type t = *type_at(p, v);
    if (!has_any(&t, &at->dims))
        return v;
    const Ins *i = made_here(p, v);
    if (i && i->op == OP_iota)
        return build_const(&p->b, t.dtype, (double)at->index[place_find(at, i->attrs.dim.name)]);
    if (i && i->op == OP_reindex)
        return shown(p, i, at);
    if (!i || !is_pointwise(i))
        return picked(p, v, at);
    const Value known = map_get(&at->map, v);
    if (known != v)
        return known;
    Value in[RULE_OPERANDS];
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = term(p, i->in[k], at);
    const Value made = again(p, i, in, &t, &at->dims);
    map_set(p->m, &at->map, v, made);
    return made;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The larger one; what is no number wins, as in a maximum over a dim. */
static Value larger(Pass *p, Value x, Value y)
{
    const Value less = build2(&p->b, OP_le, y, x);
    const Value none = build2(&p->b, OP_ne, x, x);
    const Value most = build(&p->b, OP_select, NULL, 3, (Value[]){less, x, y});
    return build(&p->b, OP_select, NULL, 3, (Value[]){none, x, most});
}

static bool next_index(const DimList *dims, int64_t *index)
{
    for (int k = dims->n; k-- > 0;) {
        if (++index[k] < dims->dim[k].size)
            return true;
        index[k] = 0;
    }
    return false;
}

/* Is s a sum, or a maximum, over few taps alone? */
static bool is_over_taps(const Pass *p, const Ins *s)
{
    const DimList *over = &s->attrs.over;
    DimList taps = {0};
    int64_t many = 1;
    if (!OP_AMONG(s->op, OP_sum, OP_rmax) || s->exact || s->attrs.whole ||
        !dtype_is_float(type_at(p, s->in[0])->dtype))
        return false;
    for (int k = 0; k < over->n && many <= FEW; k++)
        many *= over->dim[k].size;
    if (many < 2 || many > FEW)
        return false;
    const int terms = terms_of(p, s->in[0], over, DEPTH, &taps);
    return taps.n == over->n && terms * many <= TERMS;
}

static void write_out(Pass *p, const Ins *s)
{
    const DimList *over = &s->attrs.over;
    int64_t index[MAX_RANK] = {0};
    Value all = 0;
    p->elements = type_elements(type_at(p, s->out[0]));
    do {
        const Value one = term(p, s->in[0], place_for(p, over, index));
        all = !all ? one : s->op == OP_sum ? build2(&p->b, OP_add, all, one) : larger(p, all, one);
    } while (next_index(over, index));
    all = build_as(&p->b, all, *type_at(p, s->out[0]));
    if (!p->m->values.data[all].name)
        p->m->values.data[all].name = p->m->values.data[s->out[0]].name;
    map_set(p->m, &p->map, s->out[0], all);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool taps_in(Module *m, Region *r, Arena *tmp)
{
    const size_t values = m->values.n, n = r->ins.n;
    Pass p = {.m = m, .r = r, .fresh = (Value)values, .tmp = tmp};
    Ins **old = r->ins.data;
    bool any = false, inside = false;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t i = 0; i < n; i++) {
        Ins *ins = old[i];
        p.b = (Builder){m, r, ins->span, ins->path, ins->block, ins->backward, ins->again};
        if (ins->op == OP_repeat)
            inside |= taps_in(m, ins->body, tmp);
        if (!is_over_taps(&p, ins)) {
            vec_push(m->arena, &r->ins, ins);
            continue;
        }
        write_out(&p, ins);
        any = true;
    }
    if (!any)
        return inside;
    Value *map = NEW_ARRAY(tmp, Value, m->values.n);
    for (size_t v = 0; v < p.map.n && v < values; v++)
        map[v] = p.map.data[v];
    ir_replace(r, map);
    return true;
}

PassStatus pass_taps(Job *j)
{
    for (size_t i = 0; i < j->m->fns.n; i++)
        if (taps_in(j->m, j->m->fns.data[i]->body, j->tmp))
            simplify_dce(j->m, j->m->fns.data[i], j->tmp);
    return PASS_ok;
}
