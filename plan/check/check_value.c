/* check_value.c - from a value to the computed values its elements come from.
 *
 * A view is its operand's elements at other indices. A slice is a part of the stacked value; a
 * carried argument is the start value in the first iteration and the body's result of the iteration
 * before in any other; a loop's carried result is the body's of the last iteration, a stacked one
 * the body's of all iterations, one after the other. Everything else is computed (or given). */
#include "plan/check/check_run.h"

int region_depth(const Region *r)
{
    int depth = 0;
    for (; r->owner; r = r->parent)
        depth++;
    return depth;
}

/* Iterations as one number, which is below 2^63 as loops of fewer iterations are; only those around
 * v's definition count. */
uint64_t iterations_key(const Module *m, Value v, Iterations r)
{
    uint64_t key = 0, times = 1;
    const Region *home = m->values.data[v].home;
    for (int i = region_depth(home); home->owner; home = home->parent) {
        key += times * (uint64_t)(r.at[--i] + 1);
        times *= (uint64_t)home->owner->attrs.dim.size + 1;
    }
    return key;
}

int64_t next_iteration(const Meaning *w, const Ins *loop, int64_t i)
{
    const bool shortened = w->shortened(w->ctx, loop), reverse = loop->attrs.reverse;
    const int64_t n = loop->attrs.dim.size;
    int64_t step = i < 0 ? -1 : reverse ? n - 1 - i : i;
    do {
        step = shortened && step == 1 && n > 3 ? n - 1 : step + 1;
        i = reverse ? n - 1 - step : step;
    } while (step < n && !w->runs(w->ctx, loop, i));
    return step >= n ? -1 : i;
}

static int64_t previous_iteration(const Meaning *w, const Ins *loop, int64_t i)
{
    const int64_t n = loop->attrs.dim.size, back = loop->attrs.reverse ? 1 : -1;
    if (!w->shortened(w->ctx, loop)) {
        do
            i += back;
        while (i >= 0 && i < n && !w->runs(w->ctx, loop, i));
        return i < n ? i : -1;
    }
    int64_t before = -1, r = next_iteration(w, loop, -1);
    for (; r >= 0 && r != i; r = next_iteration(w, loop, r))
        before = r;
    return before;
}

/* Element e of a view, in its operand: row-major indices shifted, renamed, or with one more dim. */
static int64_t viewed_element(const Module *m, const Ins *view, int64_t e)
{
    if (view->op == OP_split || view->op == OP_merge)
        return e;
    const Type *t = type_of(m, view->out[0]), *u = type_of(m, view->in[0]);
    const Attrs *a = &view->attrs;
    int64_t index[MAX_RANK], at = 0;
    for (int i = t->rank - 1; i >= 0; i--)
        index[i] = index_of(&e, t->dims[i].size);
    for (int i = 0; i < u->rank; i++) {
        Name d = u->dims[i].name;
        int64_t here;
        if (view->op == OP_pick && d == a->dim.name)
            here = a->at;
        else if (view->op == OP_rename && d == a->dim.name)
            here = index[type_find(t, a->to.name)];
        else
            here =
                index[type_find(t, d)] + (view->op == OP_window && d == a->along.name ? a->at : 0);
        at = at * u->dims[i].size + here;
    }
    return at;
}

/* Elements of a view that follow each other in its operand too: those of the dims inside the one
 * that is picked from or cut. */
static int64_t viewed_run(const Module *m, const Ins *view)
{
    const Type *t = type_of(m, view->out[0]), *u = type_of(m, view->in[0]);
    int from = view->op == OP_pick     ? type_find(u, view->attrs.dim.name)
               : view->op == OP_window ? type_find(u, view->attrs.along.name)
                                       : 0;
    int64_t n = 1;
    for (int i = from; i < t->rank; i++)
        n *= t->dims[i].size;
    return n;
}

static void meaning_of_view(const Meaning *w, const Ins *view, Iterations r, int64_t first,
                            int64_t n, RunFn *run, void *ctx)
{
    int64_t inner = viewed_run(w->m, view), start = 0, length = 0;
    while (n > 0) {
        int64_t at = viewed_element(w->m, view, first), some = inner - first % inner;
        some = some < n ? some : n;
        if (length && at != start + length) {
            meaning_of(w, view->in[0], r, start, length, run, ctx);
            length = 0;
        }
        start = length ? start : at;
        length += some;
        first += some;
        n -= some;
    }
    if (length)
        meaning_of(w, view->in[0], r, start, length, run, ctx);
}

/* A part of a join: the value, and from which index of the joined dim on it has how many. */
typedef struct JoinPart {
    Value v;
    int64_t at, n;
} JoinPart;

/* The part of `join` that has this index of the joined dim. */
static JoinPart part_at(const Module *m, const Ins *join, int64_t index)
{
    JoinPart p = {0};
    for (uint32_t k = 0; k < join->nin; k++) {
        const Type *t = type_of(m, join->in[k]);
        const int d = type_find(t, join->attrs.dim.name);
        p.v = join->in[k];
        p.n = d < 0 ? 1 : t->dims[d].size;
        if (index < p.at + p.n)
            break;
        p.at += p.n;
    }
    return p;
}

/* From element e on, how many follow each other in a part as they do in the join: of the dims
 * inside the joined one, as far as both have them alike; and of the part's indices of that one, if
 * all of them are. d: the joined dim's place in the join's type t. */
static int64_t joined_run(const Type *t, int d, const Type *part, int64_t n, int64_t index,
                          int64_t e)
{
    int64_t run = 1;
    int i = t->rank - 1, k = part->rank - 1;
    for (; i > d && k >= 0 && t->dims[i].name == part->dims[k].name; i--, k--)
        run *= t->dims[i].size;
    if (i > d)
        return run - e % run;
    const bool along = k >= 0 && part->dims[k].name == t->dims[d].name;
    return (along ? n - index : 1) * run - e % run;
}

/* The elements of the parts: each by its index along the joined dim, at the indices that it has of
 * the others. */
static void meaning_of_join(const Meaning *w, const Ins *join, Iterations r, int64_t first,
                            int64_t n, RunFn *run, void *ctx)
{
    const Type *t = type_of(w->m, join->out[0]);
    const int d = type_find(t, join->attrs.dim.name);
    while (n > 0) {
        int64_t index[MAX_RANK], e = first, at = 0;
        for (int i = t->rank - 1; i >= 0; i--)
            index[i] = index_of(&e, t->dims[i].size);
        const JoinPart p = part_at(w->m, join, index[d]);
        const Type *u = type_of(w->m, p.v);
        for (int i = 0; i < u->rank; i++) {
            const int k = type_find(t, u->dims[i].name);
            at = at * u->dims[i].size + index[k] - (k == d ? p.at : 0);
        }
        int64_t some = joined_run(t, d, u, p.n, index[d] - p.at, first);
        some = some < n ? some : n;
        meaning_of(w, p.v, r, at, some, run, ctx);
        first += some;
        n -= some;
    }
}

/* Elements of what a loop stacks, of an iteration that it leaves out. Where the stack is carried on
 * by the loop around, as sums of gradients are, they are as they were when that iteration began. */
static void meaning_of_left_out(const Meaning *w, const Ins *loop, uint32_t k, Iterations r,
                                int64_t first, int64_t n, RunFn *run, void *ctx)
{
    const Region *body = loop->home;
    for (int64_t c = 0; body->owner && c < body->owner->attrs.carried; c++)
        if (body->results.data[c] == loop->out[k]) {
            meaning_of(w, body->args.data[c], r, first, n, run, ctx);
            return;
        }
    run(ctx, loop->out[k], UNWRITTEN, first, n);
}

static void meaning_of_result(const Meaning *w, const Ins *loop, uint32_t k, Iterations r,
                              int64_t first, int64_t n, RunFn *run, void *ctx)
{
    Value inner = loop->body->results.data[k];
    int depth = region_depth(loop->home);
    if (k < loop->attrs.carried) {
        int64_t last = -1;
        for (int64_t i = next_iteration(w, loop, -1); i >= 0; i = next_iteration(w, loop, i))
            last = r.at[depth] = i;
        meaning_of(w, last < 0 ? loop->in[k] : inner, r, first, n, run, ctx);
        return;
    }
    int64_t size = type_elements(type_of(w->m, inner));
    while (n > 0) {
        int64_t i = first / size, at = first % size, some = n < size - at ? n : size - at;
        r.at[depth] = i;
        if (w->runs(w->ctx, loop, i))
            meaning_of(w, inner, r, at, some, run, ctx);
        else
            meaning_of_left_out(w, loop, k, r, first, some, run, ctx);
        first += some;
        n -= some;
    }
}

static void meaning_of_argument(const Meaning *w, Value v, Iterations r, int64_t first, int64_t n,
                                RunFn *run, void *ctx)
{
    const Region *body = w->m->values.data[v].home;
    const Ins *loop = body->owner;
    uint32_t k = 0;
    while (body->args.data[k] != v)
        k++;
    if (!loop || k >= loop->nin) { /* of a function; or the index, which is never in memory */
        run(ctx, v, iterations_key(w->m, v, r), first, n);
        return;
    }
    int depth = region_depth(loop->home);
    if (k >= loop->attrs.carried) {
        int64_t size = type_elements(type_of(w->m, v));
        meaning_of(w, loop->in[k], r, r.at[depth] * size + first, n, run, ctx);
        return;
    }
    int64_t before = previous_iteration(w, loop, r.at[depth]);
    if (before >= 0)
        r.at[depth] = before;
    meaning_of(w, before >= 0 ? body->results.data[k] : loop->in[k], r, first, n, run, ctx);
}

void meaning_of(const Meaning *w, Value v, Iterations r, int64_t first, int64_t n, RunFn *run,
                void *ctx)
{
    const Ins *def = w->m->values.data[v].def;
    if (!def) {
        meaning_of_argument(w, v, r, first, n, run, ctx);
    } else if (op_is(def->op, VIEW)) {
        meaning_of_view(w, def, r, first, n, run, ctx);
    } else if (def->op == OP_join) {
        meaning_of_join(w, def, r, first, n, run, ctx);
    } else if (def->op == OP_repeat) {
        uint32_t k = 0;
        while (def->out[k] != v)
            k++;
        meaning_of_result(w, def, k, r, first, n, run, ctx);
    } else {
        run(ctx, v, iterations_key(w->m, v, r), first, n);
    }
}

int argument_buffer(const Check *c, FnArg a)
{
    const Program *p = c->prog;
    switch (a.role) {
    case ARG_input:
        return a.tensor < c->m->inputs.n ? p->input[a.tensor] : -1;
    case ARG_tokens:
        return p->tokens;
    case ARG_weight:
        return p->weights;
    case ARG_documents:
        return p->documents;
    case ARG_lr:
        return a.tensor < MAX_GOALS ? p->lr[a.tensor] : -1;
    case ARG_scale:
        return p->scale;
    case ARG_step:
        return p->step;
    case ARG_seed:
        return p->seed;
    case ARG_pos:
        return p->pos;
    case ARG_filled:
        return p->filled;
    case ARG_before:
        return p->before;
    case ARG_begin:
        return p->begin;
    case ARG_count:
        return p->count;
    case ARG_cache:
        return a.tensor < c->p->cache_buffer.n ? c->p->cache_buffer.data[a.tensor] : -1;
    case ARG_total:
        return a.tensor < p->totals.n ? p->totals.data[a.tensor] : -1;
    case ARG_place:
        for (int k = 0; k < p->nplaces; k++)
            if (p->place[k].axes == a.tensor)
                return p->place[k].buffer;
        return -1;
    case ARG_param:
    case ARG_rounded:
    case ARG_state:
        return a.tensor < c->p->tensor_buffer.n ? c->p->tensor_buffer.data[a.tensor] : -1;
    }
    return -1;
}
