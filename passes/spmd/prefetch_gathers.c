/* prefetch_gathers.c - what an iteration of a loop begins with is gathered, or fetched, in the
 * iteration before. (And what a loop stacks to be reduced is reduced in its iterations: buckets.c.)
 *
 *   before:  x = repeat layers[32] (x, slice w, slice v) {
 *                a = all_gather w;  x1 = dot x, a ... b = all_gather v;  x2 = dot x1, b
 *            }
 *   after:   a = all_gather (pick w 0)
 *            x, a = repeat layers[31] (x, a, slice window v [0, 31), slice window w [1, 32)) {
 *                x1 = dot x, a ... b = all_gather v;  x2 = dot x1, b
 *                a' = all_gather w                                       of the next iteration
 *            }
 *            x = repeat layers[1] (x, slice window v [31, 32)) { x1 = dot x, a ... }
 *
 * With parameters that are split over ranks, each iteration gathers those of its layer. A gather
 * runs beside what computes (streams.c), but for those that an iteration begins with, for which
 * there is nothing to run beside (Layout.ahead, see overlap.c). So these are carried round the
 * loop: once their last reader is done, those of the next iteration are gathered into the same
 * place, while the rest of the iteration computes; it takes no second buffer and no copy. What an
 * iteration needs at its end stays where it is: it is gathered beside the iteration's beginning,
 * and would have less to run beside at the end of the iteration before. What comes from another
 * level of memory, parameters and what is kept, is fetched likewise.
 *
 * That is not enough where an iteration sends almost as long as it computes: from the last gather
 * of its own to the last reader of what is carried nothing would be sent. Layout.ahead_apart has
 * the next iteration's gathered into another place, from the beginning of this one on:
 *
 *            x, a = repeat layers[31] (x, a, ...) {
 *                a' = all_gather w                                       of the next iteration
 *                x1 = dot x, a ... b = all_gather v;  x2 = dot x1, b
 *            }                                     and a' is copied to the place of a at the end
 *
 * It takes that place and a copy of it in each iteration.
 *
 * The last iteration stands by itself, as there is nothing to gather for the next: what ranks send
 * is what they sent before. Loops of ranges and segments are loops like any other, with their own
 * gathers before them.
 *
 * why here: types say no more how values lie, so a part of a loop is a loop on windows. */
#include "ir/cost.h"
#include "passes/spmd/prefetch_gathers.h"
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/view.h"
#include "passes/walk.h"

#include <string.h>

/* A gather of a loop's body that is to be made an iteration ahead. */
typedef struct Early {
    size_t at;      /* in the body */
    uint32_t slice; /* the operand of the loop that it gathers a slice of */
} Early;
typedef VEC(Early) EarlyList;

typedef struct Ahead {
    Module *m;
    const Fn *fn;
    Arena *tmp;
} Ahead;

/* ---- which gathers -------------------------------------------------------------------------- */

/* Made of one value and nothing else, on each rank by itself. */
static bool is_made_of_one(const Ins *i)
{
    return i && i->nin == 1 && i->nout == 1 && !i->body && !op_is(i->op, COMM | EFFECT);
}

static Value made_of(const Module *m, Value v)
{
    while (is_made_of_one(m->values.data[v].def))
        v = m->values.data[v].def->in[0];
    return v;
}

/* The argument of the function that v is made of, or a slice of what is; -1: there is none. */
static int argument_of(const Ahead *a, Value v)
{
    Value from;
    for (v = made_of(a->m, v); slice_loop(a->m, v, &from);)
        v = made_of(a->m, from);
    return a->m->values.data[v].home->owner ? -1 : arg_index(a->m, v);
}

static bool is_parameter(const Ahead *a, Value v)
{
    const int k = argument_of(a, v);
    return k >= 0 && a->fn->args.data[k].role <= ARG_rounded;
}

/* Is it what parameters of all layers were rounded to, ahead of these? By instructions, or layer by
 * layer (levels). */
static bool is_rounded_ahead(const Ahead *a, Value v)
{
    const Value of = made_ahead_of(a->m, v);
    const Ins *def = a->m->values.data[v].def;
    if (!dtype_is_fp8(type_of(a->m, v)->dtype))
        return false;
    return (of != v && is_parameter(a, of)) ||
           (def && def->op == OP_repeat && !def->attrs.carried && !def->attrs.relay);
}

/* Does a loop give the new value of what it takes slices of? That is written in its place. */
static bool is_updated(const Ahead *a, const Ins *loop, Value stacked)
{
    const int k = argument_of(a, stacked);
    for (size_t r = 0; r < a->fn->results.n; r++)
        if (a->fn->results.data[r].role == RES_update &&
            a->fn->results.data[r].tensor == a->fn->args.data[k].tensor &&
            a->m->values.data[a->fn->body->results.data[r]].def == loop)
            return true;
    return false;
}

/* Does a loop give new values that lie on another level? They are written in the place of the old
 * ones, of which two loops would each have a part: nothing is copied there. */
static bool updates_afar(const Ahead *a, const Ins *loop)
{
    for (size_t r = 0; r < a->fn->results.n; r++) {
        const Value v = a->fn->body->results.data[r];
        if (a->fn->results.data[r].role == RES_update && type_of(a->m, v)->level &&
            a->m->values.data[v].def == loop)
            return true;
    }
    return false;
}

static bool is_carried(const Ins *loop, Value v)
{
    for (int64_t k = 0; k < loop->attrs.carried; k++)
        if (loop->out[k] == v)
            return true;
    return false;
}

/* Is it stored on another level by a loop before, which alone writes it? */
static bool is_kept(const Module *m, Value v)
{
    for (;;) {
        const Ins *def = m->values.data[v].def;
        if (!def || !op_is(def->op, VIEW))
            return def && def->op == OP_repeat && !is_carried(def, v);
        v = def->in[0];
    }
}

static bool is_asked_for(const Ahead *a, Value v)
{
    for (size_t k = 0; k < a->m->layout.ahead.n; k++)
        if (a->m->layout.ahead.data[k] == v)
            return true;
    return false;
}

typedef struct Use {
    Value of;
    bool found;
} Use;

static void note_use(void *ctx, Value *use)
{
    Use *u = ctx;
    u->found |= *use == u->of;
}

/* Is there more arithmetic behind the last use of v than before the first? All streams meet at a
 * loop in the body, so what is beyond it does not count. What the loop stacks (gather_once.c) has a
 * place of its own in each iteration, so that the next is gathered at any time: as soon as the
 * first use is behind. Into a place of its own all of the iteration is there to run beside. */
static bool gains(const Ahead *a, const Ins *loop, const int *last, Value v)
{
    const Region *body = loop->body;
    const bool stacked = repeat_stacks(loop, v);
    if (a->m->layout.ahead_apart)
        return true;
    double before = 0, after = 0;
    Use u = {.of = v};
    for (size_t k = 0; k < body->ins.n; k++) {
        Ins *i = body->ins.data[k];
        double flops = ir_cost(a->m, i).flops;
        each_use(i, note_use, &u);
        if (!u.found)
            before = i->op == OP_repeat ? 0 : before + flops;
        if (stacked ? u.found : (int)k > last[v])
            after = i->op == OP_repeat ? 0 : after + flops;
    }
    return after > before;
}

static bool may_come_early(const Ahead *a, const Ins *loop, const Ins *i, Value stacked)
{
    const bool parameter = is_parameter(a, stacked);
    if (i->op == OP_all_gather)
        return parameter || is_rounded_ahead(a, stacked);
    return parameter ? !is_updated(a, loop, stacked) : is_kept(a->m, stacked);
}

/* Adds to the list; a fetch of what is gathered early comes with the gather. */
static void add_early(const Ahead *a, const Region *body, EarlyList *list, Early e)
{
    Value v = body->ins.data[e.at]->in[0];
    for (const Ins *i; is_made_of_one(i = a->m->values.data[v].def); v = i->in[0])
        for (size_t k = 0; k < list->n; k++)
            if (body->ins.data[list->data[k].at] == i) {
                list->data[k] = e;
                return;
            }
    vec_push(a->tmp, list, e);
}

static EarlyList early_gathers(const Ahead *a, const Ins *loop)
{
    EarlyList list = {0};
    const int *last = last_uses(a->m, loop->body, a->tmp);
    for (size_t k = 0; k < loop->body->ins.n; k++) {
        const Ins *i = loop->body->ins.data[k];
        if (!OP_AMONG(i->op, OP_all_gather, OP_transfer) || !is_asked_for(a, i->out[0]))
            continue;
        Value slice = made_of(a->m, i->in[0]), stacked = 0;
        if (slice_loop(a->m, slice, &stacked) == loop && may_come_early(a, loop, i, stacked) &&
            gains(a, loop, last, i->out[0]))
            add_early(a, loop->body, &list, (Early){k, (uint32_t)arg_index(a->m, slice)});
    }
    return list;
}

/* ---- a loop in two -------------------------------------------------------------------------- */

/* v, which is made of a slice, made of another. */
static Value made_again(Builder *b, Value v, Value slice, Value other)
{
    if (v == slice)
        return other;
    const Ins *def = b->m->values.data[v].def;
    Value in = made_again(b, def->in[0], slice, other);
    Value made = build_typed(b, def->op, &def->attrs, 1, &in, 1, type_of(b->m, v), NULL)->out[0];
    b->m->values.data[made].name = b->m->values.data[v].name;
    return made;
}

/* These iterations of a loop, which begin with `in` of what it carries. */
static Ins *iterations_of(Builder *b, const Ins *loop, int64_t first, int64_t n, const Value *in)
{
    Module *m = b->m;
    Value *here = NEW_ARRAY(m->arena, Value, loop->nin + 1);
    for (uint32_t k = 0; k < loop->nin; k++)
        here[k] = k < loop->attrs.carried
                      ? in[k]
                      : build_window(b, loop->in[k], loop->attrs.dim.name, first, n);
    Value number = repeat_counts(m, loop) ? build_const(b, DT_i32, (double)first) : 0;
    return repeat_part(b, loop, n, here, number);
}

/* An instruction of the loop's body, in a part of it. */
static const Ins *same_in(const Ins *part, const Ins *loop, size_t at)
{
    return part->body->ins.data[at + part->body->ins.n - loop->body->ins.n];
}

static void replace_in(Module *m, Region *r, Value v, Value by)
{
    Value *map = NEW_ARRAY(m->arena, Value, m->values.n);
    map[v] = by;
    ir_replace(r, map);
}

/* The last instructions of a region, from position n on, become its first. */
static void to_front(const Ahead *a, Region *r, size_t n)
{
    const size_t last = r->ins.n - n;
    Ins **moved = arena_copy(a->tmp, r->ins.data + n, last * sizeof *moved);
    memmove(r->ins.data + last, r->ins.data, n * sizeof *moved);
    memcpy(r->ins.data, moved, last * sizeof *moved);
}

/* The part, of all iterations but the last, carries what gather g gives, beginning with `start`,
 * and makes the next from the slice of the iteration behind, at its end. Returns its value after
 * the last iteration. */
static Value carry_gather(Builder *b, Ins *part, const Ins *g, Value slice, Value next, Value start)
{
    Module *m = b->m;
    Value ahead = repeat_slice(m, part, next);
    const int64_t at = part->attrs.carried;
    replace_in(m, part->body, g->out[0], repeat_carry(m, part, start));
    Builder in = builder_at(m, part->body, g);
    part->body->results.data[at] = made_again(&in, g->out[0], slice, ahead);
    return part->out[at];
}

static void split_loop(Ahead *a, Builder *b, const Ins *loop, const EarlyList *early,
                       Value *results)
{
    Module *m = a->m;
    const int64_t n = loop->attrs.dim.size;
    const bool back = loop->attrs.reverse;
    const uint32_t carried = (uint32_t)loop->attrs.carried;
    Value *start = NEW_ARRAY(a->tmp, Value, early->n), *end = NEW_ARRAY(a->tmp, Value, early->n);
    const Ins **gather = NEW_ARRAY(a->tmp, const Ins *, early->n);
    for (size_t k = 0; k < early->n; k++) {
        const Early *e = &early->data[k];
        const Ins *g = loop->body->ins.data[e->at];
        Builder at = builder_at(m, b->region, g);
        start[k] =
            made_again(&at, g->out[0], loop->body->args.data[e->slice],
                       build_pick(&at, loop->in[e->slice], loop->attrs.dim, back ? n - 1 : 0));
    }
    Ins *rest = iterations_of(b, loop, back ? 1 : 0, n - 1, loop->in);
    for (size_t k = 0; k < early->n; k++)
        gather[k] = same_in(rest, loop, early->data[k].at);
    const size_t own = rest->body->ins.n;
    for (size_t k = 0; k < early->n; k++) {
        const Early *e = &early->data[k];
        Builder before = *b; /* the windows stand before the loop */
        b->region->ins.n--;
        Value next =
            build_window(&before, loop->in[e->slice], loop->attrs.dim.name, back ? 0 : 1, n - 1);
        vec_push(m->arena, &b->region->ins, rest);
        end[k] =
            carry_gather(b, rest, gather[k], rest->body->args.data[e->slice + k], next, start[k]);
    }
    if (m->layout.ahead_apart)
        to_front(a, rest->body, own);
    Ins *last = iterations_of(b, loop, back ? 0 : n - 1, 1, rest->out);
    for (size_t k = 0; k < early->n; k++)
        replace_in(m, last->body, same_in(last, loop, early->data[k].at)->out[0], end[k]);
    for (uint32_t k = 0; k < loop->nout; k++) {
        Value parts[2] = {k < carried ? 0 : rest->out[k + early->n], last->out[k]};
        Attrs join = {.dim = loop->attrs.dim};
        results[k] = last->out[k];
        if (k >= carried)
            results[k] = build(b, OP_join, &join, 2, back ? (Value[]){parts[1], parts[0]} : parts);
        m->values.data[results[k]].name = m->values.data[loop->out[k]].name;
    }
}

static void region(Ahead *a, Region *r)
{
    Module *m = a->m;
    Ins **old = r->ins.data;
    const size_t n = r->ins.n, values = m->values.n;
    Value *map = NEW_ARRAY(a->tmp, Value, values);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        EarlyList early = {0};
        if (i->op == OP_repeat) {
            region(a, i->body);
            /* The layers of a stage differ by rank, so staged loops keep their gathers. */
            bool whole = i->attrs.dim.size > 1 && !ir_is_staged(m, i) && !updates_afar(a, i);
            early = whole ? early_gathers(a, i) : early;
        }
        if (!early.n) {
            vec_push(m->arena, &r->ins, i);
            continue;
        }
        Builder b = builder_at(m, r, i);
        Value *results = NEW_ARRAY(a->tmp, Value, i->nout);
        split_loop(a, &b, i, &early, results);
        for (uint32_t x = 0; x < i->nout; x++)
            map[i->out[x]] = results[x];
    }
    Value *all = NEW_ARRAY(a->tmp, Value, m->values.n);
    for (size_t v = 0; v < values; v++)
        all[v] = map[v];
    ir_replace(r, all);
}

PassStatus pass_prefetch_gathers(Job *j)
{
    Module *m = j->m;
    reduce_in_iterations(m, j->tmp);
    for (size_t f = 0; f < m->fns.n && m->layout.ahead.n; f++) {
        Ahead a = {.m = m, .fn = m->fns.data[f], .tmp = j->tmp};
        region(&a, a.fn->body);
        simplify_dce(m, m->fns.data[f], j->tmp);
    }
    m->layout.ahead.n = 0;
    m->layout.ahead_apart = false;
    return PASS_ok;
}
