/* gather_once.c - pass gather_once: parameters of layers that a step updates in parts are gathered
 * once a step, by the first microbatch's layers, and not behind the update (ZeRO 1 and 2).
 *
 *   before:  x = repeat micro[4] (...) {
 *                y = repeat layers[32] (y, slice w)         { a = all_gather w;  dot y, a ... }
 *                z = repeat layers[32] (z, slice w) reverse { a = all_gather w;  dot z, a ... }
 *            }
 *   after:   y, s = repeat layers[32] (y, slice w)          { a = all_gather w;  dot y, a ... -> a
 * } z = repeat layers[32] (z, slice s) reverse     { dot z, s ... } x = repeat micro[3] (...) { y =
 * repeat layers[32] (y, slice s)         { dot y, s ... } z = repeat layers[32] (z, slice s)
 * reverse { dot z, s ... }
 *            }
 *
 * Behind the update there is nothing left beside which a gather could run. In the first microbatch
 * there is: each layer's gather runs beside the layer before, as those of ZeRO 3. What it gives
 * lies where the whole copy of all layers would have lain, until the step's last read of it. A
 * copy that lies in parts between steps is the rounding of its parameter as any other (I13), and
 * what evaluation and samples read of it they gather themselves; so nothing is ever read that is
 * older than its parameter.
 *
 * Of a pipeline each stage has another first microbatch, and gathers of several layers at once hide
 * behind those of other chunks: there they stand before all microbatches, chunk by chunk
 * (by_chunk.c).
 *
 * In fp8 it is what the parts were rounded to that is gathered, in 8 bits.
 *
 * Copies, and parameters that are halves themselves, lie so by Layout.once (decide/once.c) and
 * tensor_class. A gather in a loop within a loop,
 * as segments of layers have, stays: each microbatch gathers it.
 *
 * why here: collectives are instructions, and types say no more how values lie, so that a
 * microbatch may be copied; before what is gathered is put an iteration ahead, or offloaded. */
#include "ir/mesh.h"
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/spmd/by_chunk.h"
#include "passes/walk.h"

/* A gather of a loop's body, the last in a row of them, of a slice of a tensor. */
typedef struct Gather {
    const Ins *ins;
    Value tensor;     /* the function's argument */
    int64_t first, n; /* the layers that the loop has */
} Gather;

/* Layers that a loop has gathered, and stacked. */
typedef struct Stack {
    Gather of;
    Value all;
} Stack;

typedef struct Once {
    Module *m;
    const Fn *fn;
    Arena *tmp;
    VEC(Stack) stacks;
} Once;

/* Are v layers' halves that ranks have parts of, or what these were rounded to in fp8? */
static bool is_in_parts(const Once *o, Value v)
{
    v = made_ahead_of(o->m, v);
    const ValueInfo *info = &o->m->values.data[v];
    if (info->def || info->home != o->fn->body)
        return false;
    const FnArg *a = &o->fn->args.data[arg_index(o->m, v)];
    return a->role <= ARG_rounded &&
           tensor_class(o->m, &o->m->tensors.data[a->tensor]) == CLASS_state;
}

/* An instruction of the loop's body as a gather of all ranks' parts; false: it is none, or another
 * gather of the body goes on from there. */
static bool gathers(const Once *o, const Ins *loop, const Ins *i, Gather *g)
{
    Value v = i->out[0], stacked;
    if (i->op != OP_all_gather)
        return false;
    for (size_t k = 0; k < loop->body->ins.n; k++)
        if (loop->body->ins.data[k]->op == OP_all_gather && loop->body->ins.data[k]->in[0] == v)
            return false;
    for (const Ins *def; (def = o->m->values.data[v].def) && def->op == OP_all_gather;)
        v = def->in[0];
    if (slice_loop(o->m, v, &stacked) != loop)
        return false;
    *g = (Gather){.ins = i, .n = loop->attrs.dim.size};
    for (const Ins *def; (def = o->m->values.data[stacked].def) && def->op == OP_window &&
                         def->attrs.along.name == loop->attrs.dim.name;
         stacked = def->in[0])
        g->first += def->attrs.at;
    g->tensor = stacked;
    return is_in_parts(o, stacked);
}

/* Do both put the same parts together in the same way? */
static bool same_way(const Module *m, const Ins *a, const Ins *b)
{
    while (a && b && a->op == OP_all_gather && b->op == OP_all_gather) {
        if (!attrs_equal(OP_all_gather, &a->attrs, &b->attrs))
            return false;
        a = m->values.data[a->in[0]].def;
        b = m->values.data[b->in[0]].def;
    }
    return !(a && a->op == OP_all_gather) && !(b && b->op == OP_all_gather);
}

/* The stack that has all layers of g, or NULL. */
static const Stack *stack_of(const Once *o, const Gather *g)
{
    for (size_t k = 0; k < o->stacks.n; k++) {
        const Stack *s = &o->stacks.data[k];
        if (s->of.tensor == g->tensor && s->of.first <= g->first &&
            g->first + g->n <= s->of.first + s->of.n && same_way(o->m, s->of.ins, g->ins))
            return s;
    }
    return NULL;
}

/* The loop reads what is gathered, instead of gathering it. `b` stands before the loop. */
static void read_stack(Once *o, Builder *b, Ins *loop, const Gather *g, const Stack *s)
{
    Value all = s->all;
    if (g->n < s->of.n)
        all = build_window(b, all, loop->attrs.dim.name, g->first - s->of.first, g->n);
    const Value slice = repeat_slice(o->m, loop, all);
    Value *map = NEW_ARRAY(o->tmp, Value, o->m->values.n);
    map[g->ins->out[0]] = slice;
    ir_replace(loop->body, map);
}

/* The gathers of a loop's body, whether it is stacked or read, one after the other. */
static void gather_in(Once *o, Builder *b, Ins *loop, bool first)
{
    const size_t n = loop->body->ins.n;
    for (size_t k = 0; k < n; k++) {
        Gather g;
        if (!gathers(o, loop, loop->body->ins.data[k], &g))
            continue;
        const Stack *s = stack_of(o, &g);
        if (s)
            read_stack(o, b, loop, &g, s);
        else if (first)
            vec_push(o->tmp, &o->stacks, ((Stack){g, repeat_stack(o->m, loop, g.ins->out[0])}));
    }
}

/* first: what the region's loops gather is there for all that comes behind. */
static void region(Once *o, Region *r, bool first)
{
    const Region was = *r;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < was.ins.n; k++) {
        Ins *i = was.ins.data[k];
        if (i->op == OP_repeat) {
            Builder b = builder_at(o->m, r, i);
            gather_in(o, &b, i, first);
            region(o, i->body, false);
        }
        vec_push(o->m->arena, &r->ins, i);
    }
}

/* ---- the first microbatch ------------------------------------------------------------------- */

/* Do loops of the region gather? */
static bool gathers_within(const Once *o, const Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        const Ins *loop = r->ins.data[k];
        Gather g;
        for (size_t n = 0; loop->op == OP_repeat && n < loop->body->ins.n; n++)
            if (gathers(o, loop, loop->body->ins.data[n], &g))
                return true;
    }
    return false;
}

/* Has the loop iterations that gather the same, which can be told apart? */
static bool is_peeled(const Once *o, const Ins *loop)
{
    return loop->op == OP_repeat && !loop->attrs.relay && !loop->attrs.reverse &&
           loop->nout == (uint32_t)loop->attrs.carried && gathers_within(o, loop->body);
}

/* Zero, or a slice of zeros? */
static bool is_zero(const Module *m, Value v)
{
    Value stacked;
    double x;
    while (!m->values.data[v].def && slice_loop(m, v, &stacked))
        v = stacked;
    return value_is_const(m, v, &x) && x == 0;
}

/* Products of the first microbatch add to zeros, which they need not read: they write. (In a loop
 * the planner sees to that: schedule_begin.c.) */
static void write_first(const Once *o, Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        const int added = i->op == OP_dot ? ins_added(i) : -1;
        Type t;
        if (i->body)
            write_first(o, i->body);
        if (added >= 0 && added + 1 == (int)i->nin && is_zero(o->m, i->in[added]) &&
            !type_check(o->m, OP_dot, &i->attrs, added, i->in, 1, &t) &&
            type_equal(&t, type_of(o->m, i->out[0])))
            i->nin--;
    }
}

/* The first iteration of a loop, and the others behind it: as a loop, if they are several. */
static void peel(Once *o, Builder *b, const Ins *loop, Value *map)
{
    const Dim d = loop->attrs.dim;
    Value *in = NEW_ARRAY(o->tmp, Value, loop->nin + 1);
    Value *out = NEW_ARRAY(o->tmp, Value, loop->nout + 1);
    repeat_iteration(b, loop, 0, loop->in, out);
    if (d.size == 2)
        repeat_iteration(b, loop, 1, out, out);
    if (d.size > 2) {
        for (uint32_t k = 0; k < loop->nin; k++)
            in[k] = k < loop->nout ? out[k] : build_window(b, loop->in[k], d.name, 1, d.size - 1);
        const Value number = repeat_counts(o->m, loop) ? build_const(b, DT_i32, 1) : 0;
        out = repeat_part(b, loop, d.size - 1, in, number)->out;
    }
    for (uint32_t k = 0; k < loop->nout; k++)
        map[loop->out[k]] = out[k];
}

static void peel_first(Once *o, Region *r)
{
    Module *m = o->m;
    const Region was = *r;
    const size_t values = m->values.n;
    Value *map = NEW_ARRAY(o->tmp, Value, values);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < was.ins.n; k++) {
        Builder b = builder_at(m, r, was.ins.data[k]);
        if (is_peeled(o, was.ins.data[k]))
            peel(o, &b, was.ins.data[k], map);
        else
            vec_push(m->arena, &r->ins, was.ins.data[k]);
    }
    Value *all = NEW_ARRAY(o->tmp, Value, m->values.n);
    for (size_t v = 0; v < values; v++)
        all[v] = map[v];
    ir_replace(r, all);
}

/* ---- stages --------------------------------------------------------------------------------- */

/* Of the tensor, all. */
static int64_t layers_of(const Once *o, const Gather *g)
{
    const Type *t = type_of(o->m, g->tensor);
    return t->dims[type_find(t, o->m->layout.pipeline.dim)].size;
}

/* Gathers before the rounds what loops of these gather. */
static void gather_before(Once *o, Builder *b, const Region *rounds)
{
    for (size_t k = 0; k < rounds->ins.n; k++) {
        const Ins *loop = rounds->ins.data[k];
        for (size_t n = 0; loop->op == OP_repeat && n < loop->body->ins.n; n++) {
            Gather g;
            if (!gathers(o, loop, loop->body->ins.data[n], &g) || stack_of(o, &g))
                continue;
            const Value all = gather_by_chunk(o->m, b, g.tensor, g.ins, o->tmp);
            if (all)
                vec_push(o->tmp, &o->stacks,
                         ((Stack){{g.ins, g.tensor, 0, layers_of(o, &g)}, all}));
        }
    }
}

static void before_rounds(Once *o, Region *r)
{
    const Region was = *r;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < was.ins.n; k++) {
        Ins *i = was.ins.data[k];
        if (is_rounds(i)) {
            Builder b = builder_at(o->m, r, i);
            gather_before(o, &b, i->body);
            region(o, i->body, false);
        }
        vec_push(o->m->arena, &r->ins, i);
    }
}

PassStatus pass_gather_once(Job *j)
{
    Module *m = j->m;
    Fn *fn = m->layout.once ? module_fn(m, "train") : NULL;
    if (!fn)
        return PASS_ok;
    Once o = {.m = m, .fn = fn, .tmp = j->tmp};
    if (m->layout.pipeline.axis) {
        before_rounds(&o, fn->body);
    } else {
        peel_first(&o, fn->body);
        write_first(&o, fn->body);
        region(&o, fn->body, true);
    }
    simplify_dce(m, fn, j->tmp);
    return PASS_ok;
}
