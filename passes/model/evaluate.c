/* evaluate.c - @eval goes on: its loss and metrics are of all rows that were evaluated so far.
 *
 *   before:  @eval(params, x[batch], filled) -> loss, metric... of these rows
 *   after:   @eval(params, x[batch], filled, before, total...) -> those of all rows so far,
 * total...
 *
 * The loss of a set of rows is what the model says with all of them as one batch, whatever number
 * is computed at once; so is each metric, and they share totals. What the loss takes from the rows
 * goes through sums over the batch (or maxima); those are carried from batch to batch, and what the
 * loss makes of them is made of the totals. So numerators and denominators are added up each by
 * itself, and nothing is averaged that is no average. Rows after the first `filled` only fill the
 * batch: sums are without them. A maximum may see them, since they repeat the last row.
 *
 * If rows are mixed, @eval is given the whole batch of a training step, and no argument more;
 * pass microbatch cuts it as it cuts @train. */
#include "passes/model/evaluate.h"
#include "passes/step/parts.h"
#include "passes/passes.h"
#include "passes/walk.h"

#include <stdlib.h>
#include <string.h>

/* ---- totals ---------------------------------------------------------------------------------- */

/* x * n^degree */
static Value scaled(Builder *b, Value x, Value n, int degree)
{
    for (int k = 0; k < abs(degree); k++)
        x = build2(b, degree > 0 ? OP_mul : OP_div, x, n);
    return x;
}

/* The loops around a region, the innermost last. */
typedef struct Around {
    struct Around *outer;
    Ins *loop;
} Around;

/* An argument for a total of v's dims, stacked over the loops around v, and where it is in v's
 * region. */
static Value total_arg(Evaluate *e, const Around *around, const Type *t)
{
    if (around) {
        Type stacked = type_stacked(t, around->loop->attrs.dim);
        return repeat_slice(e->m, around->loop, total_arg(e, around->outer, &stacked));
    }
    FnArg arg = {.role = ARG_total, .tensor = (uint32_t)e->fn->totals.n};
    vec_push(e->m->arena, &e->fn->args, arg);
    return region_arg(e->m, e->fn->body, *t, name_intern(e->m->names, "total"));
}

static void give_total(Evaluate *e, const Around *around, Value v, bool max)
{
    for (; around; around = around->outer)
        v = repeat_stack(e->m, around->loop, v);
    vec_push(e->tmp, &e->out, v);
    vec_push(e->m->arena, &e->fn->totals, max);
}

/* Goes on from what came before: sum, or the larger. In f64. */
static Value carried_on(Evaluate *e, Builder *b, const Around *around, Value v, bool max)
{
    Type t = *type_of(e->m, v);
    Value so_far = build2(b, max ? OP_max : OP_add, total_arg(e, around, &t), v);
    give_total(e, around, so_far, max);
    return so_far;
}

static Value total_of(Evaluate *e, Value v, const Around *around)
{
    Kind kind = evaluate_kind(e, v);
    if (kind.base == NONE || kind.base == SO_FAR || (kind.base == SAME && !kind.degree))
        return map_get(&e->renamed, v);
    if (map_get(&e->total, v) != v)
        return map_get(&e->total, v);
    const Region *home = e->m->values.data[v].home;
    while (around && around->loop->body != home)
        around = around->outer;
    Builder b = {.m = e->m, .region = e->m->values.data[v].home};
    DType t = type_of(e->m, v)->dtype;
    Value x = build_cast(&b, map_get(&e->renamed, v), DT_f64);
    x = scaled(&b, x, e->rows, -kind.degree);
    if (kind.base == SUM)
        x = carried_on(e, &b, around, x, false);
    x = scaled(&b, x, e->whole, kind.degree);
    if (kind.factor) {
        Value by = build_cast(&b, total_of(e, kind.factor, around), DT_f64);
        x = build2(&b, kind.divides ? OP_div : OP_mul, x, by);
    }
    x = build_cast(&b, x, t);
    map_set(e->m, &e->total, v, x);
    return x;
}

/* ---- rewriting ------------------------------------------------------------------------------- */

/* x with 0 in place of rows that do not count. */
static Value masked(Evaluate *e, Builder *b, Value x)
{
    Type t = *type_of(e->m, x);
    Value in[3] = {e->mask, x, build_const(b, t.dtype, 0)};
    return build_as(b, build(b, OP_select, NULL, 3, in), t);
}

static Value argument(Evaluate *e, ArgRole role, const char *name)
{
    for (size_t k = 0; k < e->fn->args.n; k++)
        if (e->fn->args.data[k].role == role)
            return e->fn->body->args.data[k];
    vec_push(e->m->arena, &e->fn->args, (FnArg){.role = role});
    return region_arg(e->m, e->fn->body, (Type){.dtype = DT_i64}, name_intern(e->m->names, name));
}

/* Constants and conditions that all sums need, before everything else. */
static void begin(Evaluate *e)
{
    Builder b = {.m = e->m, .region = e->fn->body};
    Value filled = argument(e, ARG_filled, "filled");
    e->before = argument(e, ARG_before, "before");
    e->rows = build_cast(&b, filled, DT_f64);
    e->whole = build2(&b, OP_add, build_cast(&b, e->before, DT_f64), e->rows);
    e->mask = build2(&b, OP_lt, build_iota(&b, DT_f64, e->batch), e->rows);
}

/* Numbers are drawn for rows of the set: element k of a tensor of n elements is number slot * n + k
 * of the stream, and the rows before these are some number of whole batches. */
static void drawn_from(Evaluate *e, Builder *b, Ins *i)
{
    Value rows = build_cast(b, e->before, DT_f64),
          size = build_const(b, DT_f64, (double)e->batch.size);
    Value batches = build_cast(b, build2(b, OP_div, rows, size), DT_i32);
    i->in[2] = build2(b, OP_add, i->in[2], batches);
}

static void rewrite_region(Evaluate *e, Region *r, const Around *around);

static void rewrite_repeat(Evaluate *e, Ins *i, const Around *around)
{
    Around inner = {(Around *)around, i};
    size_t carried = (size_t)i->attrs.carried;
    for (size_t k = 0; k < i->nin; k++) {
        Kind arg = evaluate_kind(e, i->body->args.data[k]);
        bool whole = k < carried && arg.base == SO_FAR;
        i->in[k] = whole ? total_of(e, i->in[k], around) : map_get(&e->renamed, i->in[k]);
    }
    rewrite_region(e, i->body, &inner);
    for (size_t k = 0; k < i->body->results.n; k++) {
        Value v = i->body->results.data[k];
        bool whole = k < i->nout && evaluate_kind(e, i->out[k]).base == SO_FAR;
        v = whole ? total_of(e, v, &inner) : map_get(&e->renamed, v);
        i->body->results.data[k] = v; /* which may have moved: totals are results, too */
    }
}

static void rewrite_ins(Evaluate *e, Region *home, Ins *i, const Around *around)
{
    Builder b = builder_at(e->m, home, i);
    uint32_t row;
    if (evaluate_factor(e, i, &row)) {
        Value x = map_get(&e->renamed, i->in[row]);
        map_set(e->m, &e->renamed, i->out[0], build_as(&b, x, *type_of(e->m, i->out[0])));
        return;
    }
    bool over = dims_have(&i->attrs.over, e->batch.name);
    bool whole = evaluate_kind(e, i->nout ? i->out[0] : 0).base == SO_FAR && !over;
    for (uint32_t k = 0; k < i->nin; k++)
        i->in[k] = whole ? total_of(e, i->in[k], around) : map_get(&e->renamed, i->in[k]);
    if (over && i->op != OP_rmax)
        i->in[0] = masked(e, &b, i->in[0]);
    if (evaluate_draws(e, i))
        drawn_from(e, &b, i);
    vec_push(e->m->arena, &home->ins, i);
    Value v = i->nout ? i->out[0] : 0;
    DType t = v ? type_of(e->m, v)->dtype : DT_none;
    if (over && i->op == OP_rmax)
        map_set(e->m, &e->renamed, v,
                build_cast(&b, carried_on(e, &b, around, build_cast(&b, v, DT_f64), true), t));
    if (i->op == OP_iota && i->attrs.dim.name == e->batch.name)
        map_set(e->m, &e->renamed, v, build2(&b, OP_add, v, build_cast(&b, e->before, t)));
}

static void rewrite_region(Evaluate *e, Region *r, const Around *around)
{
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    if (!around)
        begin(e);
    for (size_t k = 0; k < n; k++) {
        if (old[k]->op != OP_repeat) {
            rewrite_ins(e, r, old[k], around);
            continue;
        }
        rewrite_repeat(e, old[k], around);
        vec_push(e->m->arena, &r->ins, old[k]);
    }
}

static void rewrite(Evaluate *e)
{
    Region *body = e->fn->body;
    e->total = e->renamed = (ValueMap){0};
    rewrite_region(e, body, NULL);
    for (size_t k = 0; k < body->results.n; k++) {
        Value v = total_of(e, body->results.data[k], NULL);
        body->results.data[k] = v;
    }
    for (size_t k = 0; k < e->out.n; k++) {
        FnResult total = {.role = RES_total, .tensor = (uint32_t)k};
        vec_push(e->m->arena, &e->fn->results, total);
        vec_push(e->m->arena, &body->results, e->out.data[k]);
    }
}

/* The number of rows is one that is known. */
static void count_as(Evaluate *e, int64_t rows)
{
    Region *body = e->fn->body;
    Value filled = argument(e, ARG_filled, "filled");
    Value *map = NEW_ARRAY(e->tmp, Value, e->m->values.n + 1);
    Builder b = {.m = e->m, .region = body};
    map[filled] = build_const(&b, DT_i64, (double)rows);
    Ins *first = body->ins.data[body->ins.n - 1];
    memmove(body->ins.data + 1, body->ins.data, (body->ins.n - 1) * sizeof *body->ins.data);
    body->ins.data[0] = first;
    ir_replace(body, map);
}

static void drop_argument(Evaluate *e, ArgRole role)
{
    Region *body = e->fn->body;
    size_t kept = 0;
    for (size_t k = 0; k < e->fn->args.n; k++) {
        if (e->fn->args.data[k].role == role)
            continue;
        e->fn->args.data[kept] = e->fn->args.data[k];
        body->args.data[kept++] = body->args.data[k];
    }
    e->fn->args.n = body->args.n = kept;
}

static void draw_from(Evaluate *e, Region *r)
{
    Ins **old = r->ins.data;
    size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Builder b = builder_at(e->m, r, old[k]);
        if (evaluate_draws(e, old[k])) {
            e->before = argument(e, ARG_before, "before");
            drawn_from(e, &b, old[k]);
        }
        if (old[k]->body)
            draw_from(e, old[k]->body);
        vec_push(e->m->arena, &r->ins, old[k]);
    }
}

static void of_whole_batches(Evaluate *e)
{
    Module *m = e->m;
    diag_warning(
        m->diag, e->mixes->span, 530,
        "val_loss%s will be a mean over whole batches of %lld rows: by this ('%s') rows depend "
        "on others of their batch",
        m->metrics.n ? ", and each metric," : "", (long long)m->batch.size,
        op_info[e->mixes->op].name);
    drop_argument(e, ARG_filled);
    Microbatches whole = {.m = m, .batch = m->batch.name, .size = m->batch.size};
    microbatches_resize(&whole, e->fn->body);
    e->batch.size = m->batch.size;
    draw_from(e, e->fn->body);
}

/* Was the module's text printed after this pass? */
static bool is_done(const Fn *fn)
{
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == ARG_before || fn->args.data[k].role == ARG_total)
            return true;
    return false;
}

PassStatus pass_evaluate(Job *j)
{
    Module *m = j->m;
    Fn *fn = module_fn(m, "eval");
    if (!fn || !fn_rows(m, fn) || is_done(fn))
        return PASS_ok;
    Evaluate e = {.m = m, .fn = fn, .tmp = j->tmp};
    e.batch = (Dim){.name = m->batch.name, .size = fn_rows(m, fn)};
    evaluate_judge(&e);
    if (e.counts || e.mixes) {
        count_as(&e, m->batch.size);
        evaluate_judge(&e);
    }
    if (e.mixes)
        of_whole_batches(&e);
    else
        rewrite(&e);
    return PASS_ok;
}
