/* distribute.c - what the iterations of a scan need not compute one after the other leaves its
 * loop.
 *
 *   before:  repeat seq (h; slice x of X) { i = dot x, w;  h = f(h, i) }
 *   after:   I = dot X, w
 *            repeat seq (h; slice i of I) { h = f(h, i) }
 *
 * so one product is of all indices. Behind the loop of a backward part, likewise, a gradient that
 * was added up over the iterations becomes one product that sums over them:
 *
 *   before:  repeat seq reverse (dh, dw; slice x of X) { d = f(dh);  dw = dw + dot(x, d) }
 *   after:   repeat seq reverse (dh) { d = f(dh) }  stacks D
 *            dw = dw + dot(X, D)   over seq, too
 *
 * An instruction leaves to the front if no carried value leads to it, and to the back if it leads
 * to none. Ops go by the names of dims, so the same op on operands that have the scan's dim is all
 * iterations of it. What is worth leaving are products, look-ups and sums that are added up, with
 * what leads to them or comes of them at no more memory; the rest stays and is fused in the loop.
 *
 * why here: the loops of the backward part exist, and their products are not yet accumulated in
 * place. */
#include "passes/all_indices.h"
#include "passes/passes.h"
#include "passes/walk.h"

#include <string.h>

/* The place that an instruction of the body goes to. ADDED: the sum over the iterations replaces
 * it. */
typedef enum Place { STAYS, FRONT, BACK, ADDED } Place;

typedef struct Distribute {
    Module *m;
    Arena *tmp;
    Ins *loop;
    Region *body;
    Builder b;    /* beside the loop: before it, then behind it */
    Uses uses;    /* inside of the body */
    ValueMap all; /* a value of the body: as it is at all indices */
    Place *place; /* per instruction of the body */
    int *at;      /* per value: its instruction's number in the body, or -1 */
    bool *waits;  /* per value: a carried one leads to it */
    bool *leads;  /* per value: it leads to a carried one, or to what cannot leave */
    bool *varies; /* per value: not the same in all iterations */
    size_t known; /* values before anything left */
    Ins **added;  /* per carried value: the sum that alone reads it, whose other operand leaves */
    bool summed;  /* which sums leave is known */
} Distribute;

static Dim dim_of(const Distribute *d)
{
    return d->loop->attrs.dim;
}

static bool inside(const Distribute *d, Value v)
{
    return d->m->values.data[v].home == d->body;
}

static bool has_dim(const Distribute *d, Value v)
{
    return type_find(type_of(d->m, v), dim_of(d).name) >= 0;
}

static int64_t elements(const Distribute *d, Value v)
{
    return type_elements(type_of(d->m, v));
}

/* Is the op on operands with one more dim all iterations of it? */
static bool can_leave(const Distribute *d, const Ins *i)
{
    if (i->op == OP_gather && d->varies[i->in[0]])
        return false; /* the table and the index would have the dim */
    if (i->op == OP_scatter_add && d->varies[i->in[1]] && !d->varies[i->in[0]])
        return false; /* the index would have the dim, what is added would not */
    return goes_by_names(d->m, i);
}

/* Is i, at all indices, the sum over them? What is added at indices of each iteration is: it may
 * leave the loop as a part of a sum, not as one value for each iteration. */
static bool only_sums(const Distribute *d, const Ins *i)
{
    return i->op == OP_scatter_add && d->varies[i->in[1]];
}

/* ---- what leads where ------------------------------------------------------------------------ */

static void mark_use(void *ctx, Value *use)
{
    ((bool *)ctx)[*use] = true;
}

static void replace_use(void *ctx, Value *use)
{
    const Value *to = ctx;
    *use = to[*use] ? to[*use] : *use;
}

static void find_waits(Distribute *d)
{
    for (size_t k = 0; k < d->body->args.n; k++) {
        d->waits[d->body->args.data[k]] = (int64_t)k < d->loop->attrs.carried;
        d->varies[d->body->args.data[k]] = true;
    }
    for (size_t k = 0; k < d->body->ins.n; k++) {
        Ins *i = d->body->ins.data[k];
        bool waits = i->body || i->op == OP_random, varies = waits; /* a loop reads what it likes */
        for (uint32_t x = 0; x < i->nin; x++) {
            waits |= d->waits[i->in[x]];
            varies |= d->varies[i->in[x]];
        }
        for (uint32_t x = 0; x < i->nout; x++) {
            d->waits[i->out[x]] = waits;
            d->varies[i->out[x]] = varies;
            d->at[i->out[x]] = (int)k;
        }
    }
    for (size_t k = 0; k < d->body->ins.n; k++) { /* once it is known what varies */
        const Ins *i = d->body->ins.data[k];
        for (uint32_t x = 0; x < i->nout; x++) {
            bool waits = d->waits[i->out[x]] || !can_leave(d, i) || only_sums(d, i);
            for (uint32_t o = 0; o < i->nin; o++)
                waits |= d->waits[i->in[o]];
            d->waits[i->out[x]] = waits;
        }
    }
}

/* The sum by which a carried value grows, and nothing else reads it or what it becomes: or NULL. */
static Ins *sum_of(const Distribute *d, int64_t k)
{
    const Value arg = d->body->args.data[k], next = d->body->results.data[k];
    Ins *i = inside(d, next) ? d->m->values.data[next].def : NULL;
    if (!i || i->op != OP_add || d->uses.count[next] != 1 || d->uses.count[arg] != 1 ||
        (i->in[0] != arg && i->in[1] != arg))
        return NULL;
    return i;
}

static Value other_operand(const Distribute *d, int64_t k)
{
    return d->added[k]->in[d->added[k]->in[0] == d->body->args.data[k]];
}

static void mark_leads(Distribute *d)
{
    for (int64_t k = 0; k < d->loop->attrs.carried; k++)
        if (!d->added[k])
            d->leads[d->body->results.data[k]] = true;
    for (size_t k = d->body->ins.n; k-- > 0;) {
        Ins *i = d->body->ins.data[k];
        bool stays = !can_leave(d, i) || (only_sums(d, i) && d->summed && d->place[k] != BACK);
        for (uint32_t x = 0; x < i->nout; x++)
            stays |= d->leads[i->out[x]];
        if (stays)
            each_use(i, mark_use, d->leads);
    }
}

static void find_leads(Distribute *d)
{
    for (int64_t k = 0; k < d->loop->attrs.carried; k++)
        d->added[k] = sum_of(d, k);
    mark_leads(d);
}

/* ---- what leaves ----------------------------------------------------------------------------- */

static Place place_of(const Distribute *d, Value v)
{
    return v < d->known && d->at[v] >= 0 ? d->place[d->at[v]] : STAYS;
}

/* Worth computing for all iterations at once: a product, or a look-up, that makes little of much.
 */
static bool is_worth(const Distribute *d, const Ins *i)
{
    if (!OP_AMONG(i->op, OP_dot, OP_gather, OP_scatter_add))
        return false;
    int64_t in = 0;
    for (uint32_t k = 0; k < i->nin; k++)
        in += elements(d, i->in[k]);
    return i->op != OP_dot || elements(d, i->out[0]) <= 4 * in;
}

/* Does i only go on with what left and nobody else reads, at no more memory? */
static bool goes_on(const Distribute *d, const Ins *i)
{
    int64_t before = 0;
    if (!op_is(i->op, POINTWISE) && !OP_AMONG(i->op, OP_cast, OP_sum))
        return false;
    for (uint32_t k = 0; k < i->nin; k++) {
        if (place_of(d, i->in[k]) != FRONT || !d->varies[i->in[k]])
            continue;
        if (d->uses.count[i->in[k]] != 1)
            return false;
        before += elements(d, i->in[k]);
    }
    return before && elements(d, i->out[0]) <= before;
}

static bool is_constant(const Ins *i)
{
    return OP_AMONG(i->op, OP_const, OP_iota, OP_copy) || op_is(i->op, VIEW);
}

/* Values of constants and positions alone are made where they are used (simplify: licm). */
static bool reads_outside(const Distribute *d, const Ins *i)
{
    bool reads = false;
    for (uint32_t k = 0; k < i->nin; k++)
        reads |= !inside(d, i->in[k]) || place_of(d, i->in[k]) == FRONT;
    return reads;
}

static void find_front(Distribute *d)
{
    for (size_t k = 0; k < d->body->ins.n; k++) {
        const Ins *i = d->body->ins.data[k];
        if (!i->nout || d->waits[i->out[0]])
            continue;
        bool same = !d->varies[i->out[0]] && !is_constant(i) && reads_outside(d, i);
        if (same || is_worth(d, i) || goes_on(d, i))
            d->place[k] = FRONT;
    }
    for (size_t k = d->body->ins.n; k-- > 0;) /* with what leads there */
        for (uint32_t x = 0; d->place[k] == FRONT && x < d->body->ins.data[k]->nin; x++) {
            const Value v = d->body->ins.data[k]->in[x];
            if (inside(d, v) && d->at[v] >= 0)
                d->place[d->at[v]] = FRONT;
        }
}

/* Does i itself add up the iterations, if its operands have the dim? */
static bool adds_up(const Distribute *d, const Ins *i)
{
    bool all = OP_AMONG(i->op, OP_dot, OP_scatter_add, OP_sum) && i->attrs.over.n < MAX_RANK;
    for (uint32_t k = 0; k < i->nin && all; k++)
        all = d->varies[i->in[k]];
    return all;
}

/* v, which is added up over the iterations, is a sum of what adds up (or a cast of it): marks it,
 * and what it is a sum of. False: it is added in the loop. */
static bool sum_leaves(Distribute *d, Value v, bool mark)
{
    if (place_of(d, v) == FRONT)
        return true;
    const Ins *i = inside(d, v) ? d->m->values.data[v].def : NULL;
    if (!i || d->leads[v] || d->uses.count[v] != 1 || !can_leave(d, i))
        return false;
    bool leaves = adds_up(d, i);
    if (i->op == OP_cast)
        leaves = sum_leaves(d, i->in[0], mark);
    else if (i->op == OP_add)
        leaves = type_same_dims(type_of(d->m, i->in[0]), type_of(d->m, i->in[1])) &&
                 sum_leaves(d, i->in[0], mark) && sum_leaves(d, i->in[1], mark);
    if (leaves && mark)
        d->place[d->at[v]] = BACK;
    return leaves;
}

static void find_back(Distribute *d)
{
    for (int64_t k = 0; k < d->loop->attrs.carried; k++) {
        if (d->added[k] && sum_leaves(d, other_operand(d, k), false)) {
            sum_leaves(d, other_operand(d, k), true);
            d->place[d->at[d->added[k]->out[0]]] = ADDED;
        } else {
            d->added[k] = NULL;
        }
    }
    d->summed = true;
    mark_leads(d); /* what is added in the loop stays in it, with what leads there */
    for (size_t k = 0; k < d->body->ins.n; k++) {
        const Ins *i = d->body->ins.data[k];
        if (d->place[k] != STAYS || !i->nout || d->leads[i->out[0]] || !can_leave(d, i) ||
            only_sums(d, i))
            continue;
        bool follows = false;
        for (uint32_t x = 0; x < i->nin; x++)
            follows |= place_of(d, i->in[x]) == BACK;
        if (follows || is_worth(d, i))
            d->place[k] = BACK;
    }
}

/* ---- all iterations at once ------------------------------------------------------------------ */

static Value emit(Distribute *d, const Ins *i, const Attrs *a, const Value *in, Type t)
{
    Builder b = builder_at(d->m, d->b.region, i);
    Ins *made = build_typed(&b, i->op, a, (int)i->nin, in, 1, &t, NULL);
    made->exact = i->exact;
    d->m->values.data[made->out[0]].name = d->m->values.data[i->out[0]].name;
    return made->out[0];
}

static Value all_of(Distribute *d, Value v);

/* Is v another way to see something as large, or the same in more bytes? Then that is stacked. */
static bool seen_outside(const Distribute *d, Value v)
{
    const Ins *i = d->m->values.data[v].def;
    if (!i || !(op_is(i->op, VIEW) || i->op == OP_cast) || !can_leave(d, i))
        return false;
    const int64_t in = type_bytes(type_of(d->m, i->in[0]));
    return inside(d, i->in[0]) && in <= type_bytes(type_of(d->m, v));
}

static Value emit_all(Distribute *d, const Ins *i)
{
    Value in[3] = {0};
    for (uint32_t k = 0; k < i->nin; k++)
        in[k] = all_of(d, i->in[k]);
    return build_at_all(&d->b, i, in, dim_of(d));
}

/* v at all indices, at the end of what has been written: what stays in the loop is stacked by it. A
 * value that is the same in all iterations has no more dims. */
static Value all_of(Distribute *d, Value v)
{
    if (!inside(d, v))
        return v;
    const Value known = map_get(&d->all, v);
    if (known != v)
        return known;
    size_t k = 0;
    while (k < d->body->args.n && d->body->args.data[k] != v)
        k++;
    Value r;
    if (place_of(d, v) != STAYS || seen_outside(d, v))
        r = emit_all(d, d->m->values.data[v].def);
    else if (k == d->loop->nin)
        r = build_iota(&d->b, DT_i32, dim_of(d));
    else if (k >= (size_t)d->loop->attrs.carried && k < d->loop->nin)
        r = d->loop->in[k];
    else
        r = repeat_stack(d->m, d->loop, v);
    map_set(d->m, &d->all, v, r);
    return r;
}

/* The sum of v over all iterations, as dtype. */
static Value total(Distribute *d, Value v, DType dtype)
{
    const Ins *i = place_of(d, v) == STAYS ? NULL : d->m->values.data[v].def;
    const DimList along = {.n = 1, .dim = {dim_of(d)}};
    if (i && i->op == OP_cast && place_of(d, v) == BACK)
        return build_cast(&d->b, total(d, i->in[0], dtype), dtype);
    if (i && i->op == OP_add && place_of(d, v) == BACK)
        return build2(&d->b, OP_add, total(d, i->in[0], dtype), total(d, i->in[1], dtype));
    if (i && adds_up(d, i)) {
        Attrs a = i->attrs;
        Value in[3] = {0};
        Type t = *type_of(d->m, v);
        for (uint32_t k = 0; k < i->nin; k++)
            in[k] = all_of(d, i->in[k]);
        if (i->op != OP_scatter_add) {
            memmove(&a.over.dim[1], &a.over.dim[0], (size_t)a.over.n * sizeof(Dim));
            a.over.dim[0] = dim_of(d);
            a.over.n++;
        }
        if (i->op == OP_dot && dtype == dtype_wide(t.dtype)) /* products of halves give it */
            t.dtype = dtype;
        return emit(d, i, &a, in, t);
    }
    Value all = all_of(d, v);
    if (has_dim(d, all))
        return build_sum(&d->b, all, &along);
    Value n = build_const(&d->b, type_of(d->m, all)->dtype, (double)dim_of(d).size);
    return build2(&d->b, OP_mul, all, n);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* The rest of the body reads slices of what left to the front. */
static void read_slices(Distribute *d)
{
    bool *read = NEW_ARRAY(d->tmp, bool, d->m->values.n);
    Value *slice = NEW_ARRAY(d->tmp, Value, d->body->ins.n);
    for (size_t k = 0; k < d->body->ins.n; k++)
        if (d->place[k] == STAYS)
            each_use(d->body->ins.data[k], mark_use, read);
    for (int64_t k = 0; k < d->loop->attrs.carried; k++)
        read[d->body->results.data[k]] = true;
    for (size_t k = 0; k < d->body->ins.n; k++) {
        if (d->place[k] != FRONT || !read[d->body->ins.data[k]->out[0]])
            continue;
        const Value all = all_of(d, d->body->ins.data[k]->out[0]);
        slice[k] = has_dim(d, all) ? repeat_slice(d->m, d->loop, all) : all;
    }
    Value *to = NEW_ARRAY(d->tmp, Value, d->m->values.n);
    for (size_t k = 0; k < d->body->ins.n; k++)
        if (slice[k])
            to[d->body->ins.data[k]->out[0]] = slice[k];
    for (size_t k = 0; k < d->body->ins.n; k++)
        if (d->place[k] == STAYS)
            each_use(d->body->ins.data[k], replace_use, to);
    for (int64_t k = 0; k < d->loop->attrs.carried; k++)
        replace_use(to, &d->body->results.data[k]);
}

/* Results of the loop that are computed beside it now. */
static void replace_results(Distribute *d, ValueMap *outside)
{
    Module *m = d->m;
    for (uint32_t k = 0; k < d->loop->nout; k++) {
        const Value v = d->body->results.data[k], out = d->loop->out[k];
        const Type t = *type_of(m, out);
        if ((int64_t)k < d->loop->attrs.carried) {
            if (!d->added[k])
                continue;
            const Value arg = d->body->args.data[k];
            const Value in[] = {d->loop->in[k], total(d, other_operand(d, k), t.dtype)};
            map_set(m, outside, out, build_typed(&d->b, OP_add, NULL, 2, in, 1, &t, NULL)->out[0]);
            d->body->results.data[k] = arg;
        } else if (place_of(d, v) != STAYS) {
            map_set(m, outside, out, build_as(&d->b, all_of(d, v), t));
        }
    }
}

static void take_out(Distribute *d)
{
    Region *body = d->body;
    uint32_t out = (uint32_t)d->loop->attrs.carried;
    for (uint32_t k = out; k < d->loop->nout; k++) {
        if (place_of(d, body->results.data[k]) != STAYS)
            continue;
        d->loop->out[out] = d->loop->out[k];
        body->results.data[out++] = body->results.data[k];
    }
    body->results.n = d->loop->nout = out;
    size_t n = 0;
    for (size_t k = 0; k < body->ins.n; k++)
        if (d->place[k] == STAYS)
            body->ins.data[n++] = body->ins.data[k];
    body->ins.n = n;
}

/* One loop of a region whose instructions up to it are written: writes the loop, and what leaves
 * it. */
static void one_loop(Module *m, Region *r, Ins *loop, ValueMap *outside, Arena *tmp)
{
    const size_t values = m->values.n;
    Distribute d = {.m = m,
                    .tmp = tmp,
                    .loop = loop,
                    .body = loop->body,
                    .b = builder_at(m, r, loop),
                    .uses = ir_uses(m, loop->body, tmp),
                    .place = NEW_ARRAY(tmp, Place, loop->body->ins.n + 1),
                    .at = NEW_ARRAY(tmp, int, values),
                    .waits = NEW_ARRAY(tmp, bool, values),
                    .leads = NEW_ARRAY(tmp, bool, values),
                    .varies = NEW_ARRAY(tmp, bool, values),
                    .added = NEW_ARRAY(tmp, Ins *, loop->attrs.carried + 1)};
    for (size_t v = 0; v < values; v++)
        d.at[v] = -1;
    d.known = values;
    find_waits(&d);
    find_leads(&d);
    find_front(&d);
    find_back(&d);
    read_slices(&d);
    vec_push(m->arena, &r->ins, loop);
    replace_results(&d, outside);
    take_out(&d);
}

static void replace_mapped(void *ctx, Value *use)
{
    *use = map_get(ctx, *use);
}

static void region(Module *m, Region *r, Arena *tmp)
{
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    ValueMap outside = {0};
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        each_use(i, replace_mapped, &outside);
        if (i->op == OP_repeat)
            region(m, i->body, tmp);
        if (i->op == OP_repeat && i->attrs.scan)
            one_loop(m, r, i, &outside, tmp);
        else
            vec_push(m->arena, &r->ins, i);
    }
    for (size_t k = 0; k < r->results.n; k++)
        replace_mapped(&outside, &r->results.data[k]);
}

PassStatus pass_distribute(Job *j)
{
    for (size_t f = 0; f < j->m->fns.n; f++)
        region(j->m, j->m->fns.data[f]->body, j->tmp);
    return PASS_ok;
}
