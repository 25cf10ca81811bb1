/* chunk_loop.c - from chunk to chunk: the loop that scales and adds; see chunk.c.
 *
 *   repeat n (S; slices A, U):  E = S;  S = A S + U
 *
 * If the layout splits the scan's dim, the chunks are p parts of `own` chunks. A part changes a
 * state by an affine map, S -> A S + B, and so do parts one after the other:
 *
 *   B = repeat own (S = 0; slices A, U):  S = A S + U           all parts at once
 *   A = exp(the sum of all logarithms of a part)
 *   repeat p (S; slices A, B):            E' = S;  S = A S + B  from part to part
 *   repeat own (S = E'; slices A, U):     E = S;   S = A S + U  all parts at once
 *
 * The parts are split as the dim is, so ranks go through their own chunks, and what is sent is A
 * and B: numbers of a state, whatever the length. Every rank then goes from part to part by itself.
 * With the delta rule A is a matrix, by which a part moves the dims that are read: what the same
 * loop makes of the unit matrix. */
#include "passes/model/chunk.h"

#include "passes/walk.h"

/* ---- parts ----------------------------------------------------------------------------------- */

static bool in_parts(const Chunk *c)
{
    return c->p.size > 1;
}

/* The dim that the loop over chunks goes along. */
static Dim turns(const Chunk *c)
{
    return in_parts(c) ? c->own : c->n;
}

/* v with its chunks as parts of chunks. */
static Value parted(Chunk *c, Value v)
{
    if (!in_parts(c) || !chunk_has(c, v, c->n.name))
        return v;
    const Dim inner = {.name = c->n.name, .size = c->own.size};
    const Attrs a = {.dim = inner, .to = c->p};
    return chunk_renamed(c, build(&c->b, OP_split, &a, 1, &v), inner, c->own);
}

/* The way back: chunks come first. */
static Value joined(Chunk *c, Value v)
{
    if (!in_parts(c) || !v)
        return v;
    Type t = type_without(type_of(c->m, v), c->own.name);
    t = type_without(&t, c->p.name);
    t = type_stacked(&t, c->own);
    t = type_stacked(&t, c->p);
    const Dim inner = {.name = c->n.name, .size = c->own.size};
    const Attrs a = {.dim = inner, .to = c->p};
    const Value x = chunk_renamed(c, build_as(&c->b, v, t), c->own, inner);
    return build(&c->b, OP_merge, &a, 1, &x);
}

/* v with a dim outermost, if it has it: slices are taken of it. */
static Value outermost(Chunk *c, Value v, Dim d)
{
    if (!chunk_has(c, v, d.name))
        return v;
    const Type t = type_without(type_of(c->m, v), d.name);
    return build_as(&c->b, v, type_stacked(&t, d));
}

static Value slice(Chunk *c, Ins *loop, Value v)
{
    return chunk_has(c, v, loop->attrs.dim.name) ? repeat_slice(c->m, loop, v) : v;
}

/* ---- loops ----------------------------------------------------------------------------------- */

enum { ROUNDS = 2 * LINEAR_STATES };

/* The name of what a loop carries: the first ones are states. */
static Name name_of(const Chunk *c, int k, const Value *of)
{
    return k < c->x->states ? c->m->values.data[of[k]].name : 0;
}

/* A loop along d that carries n values, without instructions. */
static Ins *open_loop(Chunk *c, Dim d, int n, const Value *start)
{
    Module *m = c->m;
    const Ins *old = c->x->loop;
    Type types[ROUNDS];
    Region *body = region_new(m, c->b.region);
    for (int k = 0; k < n; k++) {
        types[k] = *type_of(m, start[k]);
        const Value arg = region_arg(m, body, types[k], name_of(c, k, old->body->args.data));
        vec_push(m->arena, &body->results, arg);
    }
    region_arg(m, body, (Type){.dtype = DT_i32}, d.name);
    const Attrs a = {.dim = d, .carried = n, .reverse = old->attrs.reverse, .scan = true};
    Ins *loop = build_typed(&c->b, OP_repeat, &a, n, start, n, types, body);
    for (int k = 0; k < n; k++)
        m->values.data[loop->out[k]].name = name_of(c, k, old->out);
    return loop;
}

/* Stacks the carried value k as it comes into each iteration. */
static Value stack_entering(Chunk *c, Ins *loop, int k)
{
    const Value arg = loop->body->args.data[k];
    const Type t = *type_of(c->m, arg);
    const Value enters = build_typed(&c->b, OP_copy, NULL, 1, &arg, 1, &t, NULL)->out[0];
    c->m->values.data[enters].name = c->m->values.data[arg].name;
    return repeat_stack(c->m, loop, enters);
}

/* One iteration, of the carried value k. keeps: it is a state, and known for each chunk then. */
static void iterate(Chunk *c, Ins *loop, int k, const Update *u, bool keeps)
{
    const Builder outside = c->b;
    const Value arg = loop->body->args.data[k];
    const Type t = *type_of(c->m, arg);
    c->b.region = loop->body;
    Value next = chunk_times(c, arg, slice(c, loop, u->left));
    next = chunk_plus(c, next, slice(c, loop, u->adds));
    if (u->by) {
        const DimList along = {.n = 1, .dim = {c->s}};
        const Value w = chunk_plus(c, slice(c, loop, u->known),
                                   chunk_contract(c, slice(c, loop, u->by), arg, &u->read));
        const Value v = chunk_contract(c, slice(c, loop, u->times), w, &along);
        next = chunk_plus(c, next, chunk_signed(c, v, u->minus));
        if (keeps)
            c->solved[k] = repeat_stack(c->m, loop, w);
    }
    if (keeps)
        c->entered[k] = stack_entering(c, loop, k);
    loop->body->results.data[k] = build_as(&c->b, next, t);
    c->b = outside;
}

static Ins *go_round(Chunk *c, int n, const Value *start, const Update *u, bool keeps)
{
    Ins *loop = open_loop(c, turns(c), n, start);
    for (int k = 0; k < n; k++)
        iterate(c, loop, k, &u[k], keeps);
    return loop;
}

/* ---- what a part does ------------------------------------------------------------------------ */

/* The factor of a state over all chunks of a part; 0: 1. */
static Value left_of_part(Chunk *c, int state)
{
    const Value all = chunk_fade_all(c, c->x->update[state]);
    if (!all)
        return 0;
    if (!chunk_has(c, all, c->n.name)) {
        const Value n = build_const(&c->b, type_of(c->m, all)->dtype, (double)c->own.size);
        return build1(&c->b, OP_exp, chunk_times(c, all, n));
    }
    const DimList own = {.n = 1, .dim = {c->own}};
    return build1(&c->b, OP_exp, build_sum(&c->b, parted(c, all), &own));
}

/* A dim that is read, as what of the state came into the part. */
static Dim was(Chunk *c, Dim d)
{
    const char *name = arena_printf(c->m->arena, "%s.was", name_str(c->m->names, d.name));
    return (Dim){.name = name_intern(c->m->names, name), .size = d.size};
}

static DimList all_were(Chunk *c, const DimList *read)
{
    DimList r = {.n = read->n};
    for (int k = 0; k < read->n; k++)
        r.dim[k] = was(c, read->dim[k]);
    return r;
}

/* The unit matrix over the dims that are read, with the dims of all that moves them. */
static Value unit(Chunk *c, int state, const Update *u)
{
    const DType dtype = type_of(c->m, c->x->loop->in[state])->dtype;
    const Value by[] = {u->left, u->by, u->times};
    const DimList then = all_were(c, &u->read);
    Type t = {.dtype = dtype, .rank = 1, .dims = {c->p}};
    for (int k = 0; k < 3; k++)
        for (int d = 0; by[k] && d < type_of(c->m, by[k])->rank; d++) {
            const Dim dim = type_of(c->m, by[k])->dims[d];
            if (dim.name != c->s.name && dim.name != c->own.name && type_find(&t, dim.name) < 0 &&
                !dims_have(&u->read, dim.name))
                t.dims[t.rank++] = dim;
        }
    Value r = 0;
    for (int k = 0; k < then.n; k++) {
        t.dims[t.rank++] = u->read.dim[k];
        t.dims[t.rank++] = then.dim[k];
        const Value same = build2(&c->b, OP_eq, build_iota(&c->b, DT_i32, u->read.dim[k]),
                                  build_iota(&c->b, DT_i32, then.dim[k]));
        const Value in[] = {same, build_const(&c->b, dtype, 1), build_const(&c->b, dtype, 0)};
        r = chunk_times(c, r, build(&c->b, OP_select, NULL, 3, in));
    }
    return build_as(&c->b, r, t);
}

/* One part: what comes into it, and what it makes of that. */
static void pass_on(Chunk *c, Ins *fold, int state, const Update *u, Value left, Value adds)
{
    const Builder outside = c->b;
    Value arg = fold->body->args.data[state], next;
    const Type t = *type_of(c->m, arg);
    c->b.region = fold->body;
    if (u->by) {
        const DimList then = all_were(c, &u->read);
        next = arg;
        for (int k = 0; k < then.n; k++)
            next = chunk_renamed(c, next, u->read.dim[k], then.dim[k]);
        next = chunk_contract(c, slice(c, fold, left), next, &then);
    } else {
        next = chunk_times(c, arg, slice(c, fold, left));
    }
    next = chunk_plus(c, next, slice(c, fold, adds));
    c->entered[state] = stack_entering(c, fold, state);
    fold->body->results.data[state] = build_as(&c->b, next, t);
    c->b = outside;
}

/* The states that come into each part, [p, ..]; out: what they are behind the last one. */
static void go_from_part_to_part(Chunk *c, const Update *u, Value *enter, Value *out)
{
    const Ins *old = c->x->loop;
    const int states = c->x->states;
    Value start[ROUNDS], left[LINEAR_STATES];
    Update each[ROUNDS];
    int n = states, at[LINEAR_STATES];
    for (int k = 0; k < states; k++) {
        const Type t = type_stacked(type_of(c->m, old->in[k]), c->p);
        start[k] = build_filled(&c->b, t, 0);
        each[k] = u[k];
        at[k] = n;
        if (!u[k].by)
            continue;
        start[n] = unit(c, k, &u[k]);
        each[n] = u[k];
        each[n].adds = each[n].known = 0;
        n++;
    }
    const Ins *parts = go_round(c, n, start, each, false);
    for (int k = 0; k < states; k++) {
        left[k] = u[k].by ? parts->out[at[k]] : left_of_part(c, k);
        left[k] = left[k] ? outermost(c, left[k], c->p) : 0;
    }
    Ins *fold = open_loop(c, c->p, states, old->in);
    for (int k = 0; k < states; k++)
        pass_on(c, fold, k, &u[k], left[k], parts->out[k]);
    for (int k = 0; k < states; k++) {
        enter[k] = c->entered[k];
        out[k] = fold->out[k];
    }
}

void chunk_go_through(Chunk *c, const Update *u, Value *out)
{
    const Ins *old = c->x->loop;
    Update at_once[LINEAR_STATES];
    Value enter[LINEAR_STATES];
    for (int k = 0; k < c->x->states; k++) {
        at_once[k] = u[k];
        Value *const v[] = {&at_once[k].left, &at_once[k].adds, &at_once[k].known, &at_once[k].by,
                            &at_once[k].times};
        for (size_t n = 0; n < sizeof v / sizeof *v; n++)
            if (*v[n])
                *v[n] = outermost(c, parted(c, *v[n]), turns(c));
        enter[k] = old->in[k];
    }
    if (in_parts(c))
        go_from_part_to_part(c, at_once, enter, out);
    const Ins *loop = go_round(c, c->x->states, enter, at_once, true);
    for (int k = 0; k < c->x->states; k++) {
        c->entered[k] = joined(c, c->entered[k]);
        c->solved[k] = joined(c, c->solved[k]);
        if (!in_parts(c))
            out[k] = loop->out[k];
    }
}
