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

/* How many elements of an operand apart the neighbours along each of t's dims are: 0 where it does
 * not have the dim. renamed: the dim of it that is `to` in t, or 0. */
static void steps_in(const Type *t, const Type *operand, Name renamed, Name to, int64_t *by)
{
    int64_t size = 1;
    for (int i = 0; i < t->rank; i++)
        by[i] = 0;
    for (int i = operand->rank - 1; i >= 0; i--) {
        const Name d = operand->dims[i].name;
        const int k = type_find(t, renamed && d == renamed ? to : d);
        if (k >= 0)
            by[k] = size;
        size *= operand->dims[i].size;
    }
}

/* How many rows of s, elements of type t, are as far apart where neighbours are `by` apart, and how
 * far: the rows count along a dim of t and on along those around it, as long as that is one step.
 */
static int64_t even_rows(const Type *t, const int64_t *by, Strip s, int64_t *step)
{
    int64_t size = 1, rows = 1;
    int i = t->rank - 1;
    *step = 0;
    if (s.count == 1 || !s.step)
        return s.count;
    for (; i >= 0 && (size != s.step || t->dims[i].size == 1); i--)
        size *= t->dims[i].size;
    if (i < 0 || s.first % size + s.n > size)
        return 1;
    *step = by[i];
    for (int64_t at = s.first / size, index = 0; i >= 0 && !index; i--) {
        if (t->dims[i].size > 1 && by[i] != *step * rows)
            break;
        index = index_of(&at, t->dims[i].size);
        rows *= t->dims[i].size - index;
    }
    return rows < s.count ? rows : s.count;
}

/* Rows that follow each other, in the value and where they lie, are one. */
static Strip merged(Strip s)
{
    if (s.count > 1 && s.step == s.n && s.stride == s.n) {
        s.n *= s.count;
        s.count = 1;
    }
    return s;
}

/* Elements [from, from + n * count) of a row, as rows. */
static Strip cut_row(Strip row, int64_t from, int64_t n, int64_t count, int64_t step)
{
    return (Strip){.first = row.first + from,
                   .n = n,
                   .count = count,
                   .step = step,
                   .at = row.at + from,
                   .stride = step};
}

static void meaning_of_view(const Meaning *w, const Ins *view, Iterations r, Strip s, RunFn *run,
                            void *ctx);

/* One row of a view, longer than what follows each other in its operand. */
static void meaning_of_viewed_row(const Meaning *w, const Ins *view, Iterations r, Strip s,
                                  int64_t inner, RunFn *run, void *ctx)
{
    for (int64_t from = 0; from < s.n;) {
        const int64_t left = s.n - from, before = (s.first + from) % inner;
        const int64_t count = before || left < inner ? 1 : left / inner;
        const int64_t some = inner - before < left ? inner - before : left;
        meaning_of_view(w, view, r, cut_row(s, from, some, count, inner), run, ctx);
        from += count * some;
    }
}

static void meaning_of_view(const Meaning *w, const Ins *view, Iterations r, Strip s, RunFn *run,
                            void *ctx)
{
    const Type *t = type_of(w->m, view->out[0]), *u = type_of(w->m, view->in[0]);
    const int64_t inner = viewed_run(w->m, view);
    int64_t by[MAX_RANK], rows = 1;
    if (view->op == OP_split || view->op == OP_merge) {
        meaning_of(w, view->in[0], r, s, run, ctx);
        return;
    }
    steps_in(t, u, view->op == OP_rename ? view->attrs.dim.name : 0, view->attrs.to.name, by);
    for (; s.count > 0; s = strip_from(s, rows)) {
        Strip to = s;
        rows = to.count = 1;
        if (s.first % inner + s.n > inner) {
            meaning_of_viewed_row(w, view, r, to, inner, run, ctx);
            continue;
        }
        rows = to.count = even_rows(t, by, s, &to.step);
        to.first = viewed_element(w->m, view, s.first);
        meaning_of(w, view->in[0], r, merged(to), run, ctx);
    }
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

static void meaning_of_join(const Meaning *w, const Ins *join, Iterations r, Strip s, RunFn *run,
                            void *ctx);

static int64_t join_size(const Module *m, const Ins *join)
{
    const Type *t = type_of(m, join->out[0]);
    return t->dims[type_find(t, join->attrs.dim.name)].size;
}

/* Of a row that has whole indices of the dims around the joined one, `count` of them, `size`
 * elements each, and begins with one: how many of them are in each part rows that are evenly apart.
 * 0: a part has them in another order. */
static int64_t even_in_parts(const Meaning *w, const Ins *join, Strip row, int64_t size,
                             int64_t count)
{
    const Type *t = type_of(w->m, join->out[0]);
    const int d = type_find(t, join->attrs.dim.name);
    const int64_t inside = size / t->dims[d].size;
    JoinPart p;
    for (int64_t index = 0; index < t->dims[d].size; index += p.n) {
        int64_t by[MAX_RANK], step;
        p = part_at(w->m, join, index);
        const Type *u = type_of(w->m, p.v);
        const Strip s = cut_row(row, index * inside, p.n * inside, count, size);
        if (joined_run(t, d, u, p.n, 0, s.first) < s.n)
            return 0;
        steps_in(t, u, 0, 0, by);
        count = even_rows(t, by, s, &step);
    }
    return count;
}

/* Element e of a join: the part that has it, where in it, and how many follow it there as they do
 * in the join. */
static JoinPart joined_element(const Module *m, const Ins *join, int64_t e, int64_t *at,
                               int64_t *run)
{
    const Type *t = type_of(m, join->out[0]);
    const int d = type_find(t, join->attrs.dim.name);
    int64_t index[MAX_RANK], rest = e;
    for (int i = t->rank - 1; i >= 0; i--)
        index[i] = index_of(&rest, t->dims[i].size);
    const JoinPart p = part_at(m, join, index[d]);
    const Type *u = type_of(m, p.v);
    *at = 0;
    for (int i = 0; i < u->rank; i++) {
        const int k = type_find(t, u->dims[i].name);
        *at = *at * u->dims[i].size + index[k] - (k == d ? p.at : 0);
    }
    *run = joined_run(t, d, u, p.n, index[d] - p.at, e);
    return p;
}

/* One row of a join that is not all in one part: by parts, for as many indices of the dims around
 * the joined one as are evenly apart in all of them; or what follows each other in one part. */
static void meaning_of_joined_row(const Meaning *w, const Ins *join, Iterations r, Strip s,
                                  int64_t size, RunFn *run, void *ctx)
{
    const int64_t parts = join_size(w->m, join), inside = size / parts;
    for (int64_t from = 0, done; from < s.n; from += done) {
        const Strip row = cut_row(s, from, s.n - from, 1, s.n - from);
        const int64_t count =
            row.first % size || row.n < size ? 0 : even_in_parts(w, join, row, size, row.n / size);
        JoinPart p;
        for (int64_t index = 0; count && index < parts; index += p.n) {
            p = part_at(w->m, join, index);
            meaning_of_join(w, join, r, cut_row(row, index * inside, p.n * inside, count, size),
                            run, ctx);
        }
        if ((done = count * size))
            continue;
        joined_element(w->m, join, row.first, &(int64_t){0}, &done);
        done = done < row.n ? done : row.n;
        meaning_of_join(w, join, r, cut_row(row, 0, done, 1, done), run, ctx);
    }
}

/* The elements of the parts: each by its index along the joined dim, at the indices that it has of
 * the others. Rows stay in one part where they count along dims around the joined one. */
static void meaning_of_join(const Meaning *w, const Ins *join, Iterations r, Strip s, RunFn *run,
                            void *ctx)
{
    const Type *t = type_of(w->m, join->out[0]);
    int64_t size = 1, rows = 1;
    for (int i = type_find(t, join->attrs.dim.name); i < t->rank; i++)
        size *= t->dims[i].size;
    for (; s.count > 0; s = strip_from(s, rows)) {
        int64_t by[MAX_RANK], some;
        Strip to = s;
        const JoinPart p = joined_element(w->m, join, s.first, &to.first, &some);
        rows = to.count = 1;
        if (some < s.n) {
            to.first = s.first;
            meaning_of_joined_row(w, join, r, to, size, run, ctx);
            continue;
        }
        steps_in(t, type_of(w->m, p.v), 0, 0, by);
        if (s.step % size == 0)
            rows = to.count = even_rows(t, by, s, &to.step);
        meaning_of(w, p.v, r, merged(to), run, ctx);
    }
}

/* Elements of what a loop stacks, of an iteration that it leaves out. Where the stack is carried on
 * by the loop around, as sums of gradients are, they are as they were when that iteration began. */
static void meaning_of_left_out(const Meaning *w, const Ins *loop, uint32_t k, Iterations r,
                                Strip s, RunFn *run, void *ctx)
{
    const Region *body = loop->home;
    for (int64_t c = 0; body->owner && c < body->owner->attrs.carried; c++)
        if (body->results.data[c] == loop->out[k]) {
            meaning_of(w, body->args.data[c], r, s, run, ctx);
            return;
        }
    run(ctx, loop->out[k], UNWRITTEN, s);
}

/* Elements of what a loop stacks, all of one iteration. */
static void meaning_of_stacked(const Meaning *w, const Ins *loop, uint32_t k, Iterations r, Strip s,
                               RunFn *run, void *ctx)
{
    const Value inner = loop->body->results.data[k];
    const int64_t size = type_elements(type_of(w->m, inner)), i = s.first / size;
    r.at[region_depth(loop->home)] = i;
    if (!w->runs(w->ctx, loop, i)) {
        meaning_of_left_out(w, loop, k, r, s, run, ctx);
        return;
    }
    s.first -= i * size;
    meaning_of(w, inner, r, s, run, ctx);
}

static void meaning_of_result(const Meaning *w, const Ins *loop, uint32_t k, Iterations r, Strip s,
                              RunFn *run, void *ctx)
{
    Value inner = loop->body->results.data[k];
    int depth = region_depth(loop->home);
    if (k < loop->attrs.carried) {
        int64_t last = -1;
        for (int64_t i = next_iteration(w, loop, -1); i >= 0; i = next_iteration(w, loop, i))
            last = r.at[depth] = i;
        meaning_of(w, last < 0 ? loop->in[k] : inner, r, s, run, ctx);
        return;
    }
    const int64_t size = type_elements(type_of(w->m, inner));
    if (s.first % size + (s.count - 1) * s.step + s.n <= size) {
        meaning_of_stacked(w, loop, k, r, s, run, ctx);
        return;
    }
    for (; s.count > 0; s = strip_from(s, 1))
        for (int64_t from = 0, some; from < s.n; from += some) {
            some = size - (s.first + from) % size;
            some = some < s.n - from ? some : s.n - from;
            meaning_of_stacked(w, loop, k, r, cut_row(s, from, some, 1, some), run, ctx);
        }
}

static void meaning_of_argument(const Meaning *w, Value v, Iterations r, Strip s, RunFn *run,
                                void *ctx)
{
    const Region *body = w->m->values.data[v].home;
    const Ins *loop = body->owner;
    uint32_t k = 0;
    while (body->args.data[k] != v)
        k++;
    if (!loop || k >= loop->nin) { /* of a function; or the index, which is never in memory */
        run(ctx, v, iterations_key(w->m, v, r), s);
        return;
    }
    int depth = region_depth(loop->home);
    if (k >= loop->attrs.carried) {
        s.first += r.at[depth] * type_elements(type_of(w->m, v));
        meaning_of(w, loop->in[k], r, s, run, ctx);
        return;
    }
    int64_t before = previous_iteration(w, loop, r.at[depth]);
    if (before >= 0)
        r.at[depth] = before;
    meaning_of(w, before >= 0 ? body->results.data[k] : loop->in[k], r, s, run, ctx);
}

void meaning_of(const Meaning *w, Value v, Iterations r, Strip s, RunFn *run, void *ctx)
{
    const Ins *def = w->m->values.data[v].def;
    if (!def) {
        meaning_of_argument(w, v, r, s, run, ctx);
    } else if (op_is(def->op, VIEW)) {
        meaning_of_view(w, def, r, s, run, ctx);
    } else if (def->op == OP_join) {
        meaning_of_join(w, def, r, s, run, ctx);
    } else if (def->op == OP_repeat) {
        uint32_t k = 0;
        while (def->out[k] != v)
            k++;
        meaning_of_result(w, def, k, r, s, run, ctx);
    } else {
        run(ctx, v, iterations_key(w->m, v, r), s);
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
