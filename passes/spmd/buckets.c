/* buckets.c - gradients that a loop stacks are reduced iteration by iteration; part of pass ahead.
 *
 *   before:  g = repeat layers[32] reverse (...) { dw = dot x, dy ... -> dw }
 *            r = all_reduce g
 *   after:   r = repeat layers[32] reverse (...) { dw = dot x, dy;  s = all_reduce dw ... -> s }
 *
 * Behind the loop nothing is left beside which the reduction of all layers could run; in an
 * iteration it runs beside the rest of the backward pass of that layer. What it sums, and in which
 * order, is the same, element by element.
 *
 * Gradients that are added up over microbatches are reduced once a step. So their last iteration
 * stands behind the loop, where the loops over layers that it has are like any others:
 *
 *   a = repeat micro[8] (a) { a' = repeat layers reverse (slice a) ... }      r = all_reduce a
 *   a = repeat micro[7] (a) { ... }    a' = repeat layers reverse (slice a) ...     r = all_reduce
 * a'
 *
 * Small ones stay: a message costs what it costs. Whether it is done, and from which size on, is
 * Layout.bucket (overlap.c). What is scattered takes less memory so, for the stack then has the
 * parts alone: that is done whatever the time (Layout.scatter); no last iteration is put behind a
 * loop for it.
 *
 * why here: what is to be reduced is known, and loops are not yet planned; before what is gathered
 * ahead, which looks at the same loops. */
#include "passes/spmd/prefetch_gathers.h"
#include "passes/simplify/simplify.h"
#include "passes/spmd/by_chunk.h"
#include "passes/walk.h"

#include <string.h>

typedef struct Buckets {
    Module *m;
    Arena *tmp;
    int64_t least, scatter; /* bytes of an iteration to be reduced, or scattered, alone; 0: none */
} Buckets;

/* From how many bytes on. */
static int64_t least_of(const Buckets *u, Op reduces)
{
    const bool scatters = reduces == OP_reduce_scatter && u->scatter;
    return !scatters ? u->least : !u->least || u->scatter < u->least ? u->scatter : u->least;
}

static const Ins *def_of(const Buckets *u, Value v)
{
    return u->m->values.data[v].def;
}

/* Index of v among the results of an instruction. */
static uint32_t result_index(const Ins *i, Value v)
{
    uint32_t k = 0;
    while (i->out[k] != v)
        k++;
    return k;
}

/* Is v stacked by a loop, from what its iterations compute themselves, enough of it? */
static bool is_stacked(const Buckets *u, Value v, int64_t least)
{
    const Ins *loop = def_of(u, v);
    if (!loop || loop->op != OP_repeat || loop->attrs.relay)
        return false;
    uint32_t k = result_index(loop, v);
    if (k < (uint32_t)loop->attrs.carried)
        return false;
    Value made = loop->body->results.data[k];
    const ValueInfo *info = &u->m->values.data[made];
    return info->def && info->home == loop->body && type_bytes(&info->type) >= least;
}

/* The part of v that is joined with zeros, to come out even (passes/step/even.c); v itself: none
 * is.
 */
static Value without_zeros(const Buckets *u, Value v)
{
    const Ins *def = def_of(u, v);
    double x;
    const bool joins = def && def->op == OP_join && def->nin == 2 &&
                       type_find(type_of(u->m, def->in[0]), def->attrs.dim.name) >= 0;
    return joins && value_is_const(u->m, def->in[1], &x) && x == 0 ? def->in[0] : v;
}

/* ... or put together of such, from loops over ranges of the same dim? */
static bool is_made_in_iterations(const Buckets *u, Value v, Name reduced, int64_t least)
{
    const Value part = without_zeros(u, v);
    if (part != v) {
        const Ins *loop = def_of(u, part);
        return is_stacked(u, part, least) && loop->attrs.dim.name != def_of(u, v)->attrs.dim.name;
    }
    const Ins *def = def_of(u, v);
    if (def && def->op == OP_join) {
        for (uint32_t k = 0; k < def->nin; k++)
            if (!is_made_in_iterations(u, def->in[k], reduced, least))
                return false;
        return def->attrs.dim.name != reduced;
    }
    return is_stacked(u, v, least) && def->attrs.dim.name != reduced;
}

static bool is_used_once(const Buckets *u, const Uses *uses, Value v)
{
    const Ins *def = def_of(u, v);
    const bool zeros = without_zeros(u, v) != v; /* which all that is joined may share */
    for (uint32_t k = 0; def && def->op == OP_join && k < def->nin - zeros; k++)
        if (uses->count[def->in[k]] != 1)
            return false;
    return uses->count[v] == 1;
}

/* ---- into the iterations ------------------------------------------------------------------------
 */

/* Moves the instructions from number `first` on to behind that which makes v. */
static void move_behind(Region *r, size_t first, Value v)
{
    size_t at = first;
    for (bool makes = false; !makes; at -= !makes)
        for (uint32_t k = 0; k < r->ins.data[at - 1]->nout; k++)
            makes |= r->ins.data[at - 1]->out[k] == v;
    const size_t n = r->ins.n - first, rest = first - at;
    Ins *last[8];
    memcpy(last, r->ins.data + first, n * sizeof *last);
    memmove(r->ins.data + at + n, r->ins.data + at, rest * sizeof *last);
    memcpy(r->ins.data + at, last, n * sizeof *last);
}

/* The part of v that an iteration makes, joined with its share of the zeros: v is `part` and these.
 */
static Value with_zeros(Buckets *u, Builder *b, Value v, Value part, Value made)
{
    Module *m = u->m;
    const Ins *join = def_of(u, v);
    const Type rest = type_without(type_of(m, join->in[1]), def_of(u, part)->attrs.dim.name);
    const Value parts[] = {made, build_filled(b, rest, 0)};
    const Value all = build(b, OP_join, &join->attrs, 2, parts);
    m->values.data[all].name = m->values.data[made].name;
    return all;
}

/* The reduction of v, by the iterations that make it. */
static Value reduced(Buckets *u, Builder *b, const Ins *reduction, Value v)
{
    Module *m = u->m;
    const Value part = without_zeros(u, v);
    Ins *def = m->values.data[part].def;
    if (def->op == OP_join) {
        Value *parts = NEW_ARRAY(u->tmp, Value, def->nin);
        for (uint32_t k = 0; k < def->nin; k++)
            parts[k] = reduced(u, b, reduction, def->in[k]);
        Value all = build(b, OP_join, &def->attrs, (int)def->nin, parts);
        m->values.data[all].name = m->values.data[v].name;
        return all;
    }
    Value made = def->body->results.data[result_index(def, part)];
    const size_t before = def->body->ins.n;
    Builder in = builder_at(m, def->body, m->values.data[made].def);
    Value whole = part == v ? made : with_zeros(u, &in, v, part, made);
    Value sum = build(&in, reduction->op, &reduction->attrs, 1, &whole);
    m->values.data[sum].name = m->values.data[made].name;
    move_behind(def->body, before, made);
    return repeat_stack(m, def, sum);
}

static void into_iterations(Buckets *u, Region *r)
{
    Module *m = u->m;
    Uses uses = ir_uses(m, r, u->tmp);
    Ins **old = r->ins.data;
    const size_t n = r->ins.n, values = m->values.n;
    Value *map = NEW_ARRAY(u->tmp, Value, values);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Value v = i->nin ? i->in[0] : 0;
        const int64_t least = op_is(i->op, SUMS) ? least_of(u, i->op) : 0;
        if (least && is_used_once(u, &uses, v) &&
            is_made_in_iterations(u, v, i->op == OP_reduce_scatter ? i->attrs.dim.name : 0,
                                  least)) {
            Builder b = builder_at(m, r, i);
            map[i->out[0]] = reduced(u, &b, i, v);
            continue;
        }
        vec_push(m->arena, &r->ins, i);
    }
    Value *all = NEW_ARRAY(u->tmp, Value, m->values.n);
    memcpy(all, map, values * sizeof *all);
    ir_replace(r, all);
}

/* ---- the last microbatch -------------------------------------------------------------------- */

/* Does a loop that only carries end with the sums of another, which are then reduced? */
static bool accumulates(const Buckets *u, const Region *r, const Ins *loop)
{
    if (loop->op != OP_repeat || loop->attrs.relay || loop->attrs.reverse ||
        loop->attrs.dim.size < 2 || loop->nout != (uint32_t)loop->attrs.carried)
        return false;
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *i = r->ins.data[k];
        const Value v = op_is(i->op, SUMS) ? without_zeros(u, i->in[0]) : 0;
        if (!v || def_of(u, v) != loop)
            continue;
        Value made = loop->body->results.data[result_index(loop, v)];
        const ValueInfo *info = &u->m->values.data[made];
        if (info->def && info->home == loop->body && is_made_in_iterations(u, made, 0, u->least))
            return true;
    }
    return false;
}

/* All iterations but the last as a loop, and the last behind it; what the loop gave, in `map`. */
static void peel(Buckets *u, Builder *b, const Ins *loop, Value *map)
{
    const Dim d = loop->attrs.dim;
    Value *in = NEW_ARRAY(u->tmp, Value, loop->nin + 1);
    for (uint32_t k = 0; k < loop->nin; k++) {
        const bool slice = k >= (uint32_t)loop->attrs.carried;
        in[k] = slice ? build_window(b, loop->in[k], d.name, 0, d.size - 1) : loop->in[k];
    }
    const Ins *rest = repeat_part(b, loop, d.size - 1, in, 0);
    Value *out = NEW_ARRAY(u->tmp, Value, loop->nout + 1);
    repeat_iteration(b, loop, d.size - 1, rest->out, out);
    for (uint32_t k = 0; k < loop->nout; k++)
        map[loop->out[k]] = out[k];
}

static void peel_loops(Buckets *u, Region *r)
{
    Module *m = u->m;
    const Region was = *r;
    const size_t values = m->values.n;
    Value *map = NEW_ARRAY(u->tmp, Value, values);
    bool any = false, *peels = NEW_ARRAY(u->tmp, bool, was.ins.n + 1);
    for (size_t k = 0; k < was.ins.n; k++)
        any |= peels[k] = accumulates(u, &was, was.ins.data[k]);
    if (!any)
        return;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < was.ins.n; k++) {
        Builder b = builder_at(m, r, was.ins.data[k]);
        if (peels[k])
            peel(u, &b, was.ins.data[k], map);
        else
            vec_push(m->arena, &r->ins, was.ins.data[k]);
    }
    Value *all = NEW_ARRAY(u->tmp, Value, m->values.n);
    memcpy(all, map, values * sizeof *all);
    ir_replace(r, all);
}

static void region(Buckets *u, Region *r)
{
    if (u->least)
        peel_loops(u, r);
    into_iterations(u, r);
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k]->op == OP_repeat)
            region(u, r->ins.data[k]->body);
}

void reduce_in_iterations(Module *m, Arena *tmp)
{
    /* Of a pipeline each stage's last iteration is another: none can be put behind the loop
     * (by_chunk.c). */
    Buckets u = {.m = m,
                 .tmp = tmp,
                 .least = m->layout.pipeline.axis ? 0 : m->layout.bucket,
                 .scatter = m->layout.scatter};
    for (size_t f = 0; f < m->fns.n && (u.least || u.scatter); f++) {
        region(&u, m->fns.data[f]->body);
        simplify_dce(m, m->fns.data[f], tmp);
    }
    if (m->layout.pipeline.axis)
        reduce_by_chunk(m, m->layout.bucket, tmp);
    m->layout.bucket = m->layout.scatter = 0;
}
