/* recompute.c - marks what the backward part of each repeat of @train keeps.
 *
 *   before:  repeat layers[12] { q = ...; n = ... }
 *   after:   repeat layers[12] { q = ... keep; n = ... }
 *
 * or, where iterations are treated differently (Layout.plan), ranges of them one after the other,
 * each a loop of its own on windows of what the loop was given:
 *
 *   h, a = repeat layers[4] (h, window w [0, 4)) { ... }
 *   h, b = repeat layers[8] (h, window w [4, 12)) { ... };  join a, b
 *
 * and iterations that keep only what goes into a segment of them as a loop in a loop:
 *
 *   repeat layers.segments[2] (h, split window w) { repeat layers[4] (h, slice) { ... } }
 *
 * The differentiator computes values without the mark again, from those with it. Products of the
 * bodies are marked `apart`, whatever is kept: a value that is computed again has the bits it had.
 *
 * why here: the gradients of ranges are then those of loops like any other. */
#include "passes/passes.h"
#include "passes/autodiff/recompute.h"
#include "passes/view.h"
#include "passes/walk.h"
#include "ir/propose.h"

#include <string.h>

/* ---- marks ----------------------------------------------------------------------------------- */

static void set_exact(void *ctx, Ins *i)
{
    (void)ctx;
    i->exact = i->op == OP_dot;
}

const char *ins_called(const Module *m, const Ins *i)
{
    for (uint32_t k = 0; k < i->nin && (op_is_product(i->op) || i->op == OP_grouped); k++) {
        Value v = i->in[k], from = 0;
        while (slice_loop(m, v, &from))
            v = from;
        const ValueInfo *info = &m->values.data[v];
        if (!info->def && !info->home->owner)
            return name_str(m->names, m->values.data[i->in[k]].name);
    }
    return i->nout ? name_str(m->names, m->values.data[i->out[0]].name) : "";
}

static bool is_named(const Module *m, const Ins *i)
{
    for (size_t k = 0; k < m->layout.keep.n; k++)
        if (strcmp(ins_called(m, i), name_str(m->names, m->layout.keep.data[k].name)) == 0)
            return true;
    return false;
}

/* A half as f32, called as the half is: nobody keeps it twice. */
static bool only_wider(const Module *m, const Ins *i)
{
    return i->op == OP_cast && dtype_is_half(type_of(m, i->in[0])->dtype);
}

/* A named value that is rounded before anyone reads it is kept as it is rounded. */
static bool is_kept(const Module *m, const Ins *i)
{
    switch (m->layout.recompute) {
    case RECOMPUTE_none:
        return true;
    case RECOMPUTE_auto: /* of what is beyond all that is looked at */
        return !op_is(i->op, CHEAP | POINTWISE) || ir_ends_product(m, i);
    case RECOMPUTE_keep:
        return (is_named(m, i) && !only_wider(m, i)) ||
               (i->op == OP_cast && m->values.data[i->in[0]].def &&
                dtype_is_half(type_of(m, i->out[0])->dtype) &&
                is_named(m, m->values.data[i->in[0]].def));
    case RECOMPUTE_all:
    case RECOMPUTE_count:
        break;
    }
    return false;
}

static void mark(void *ctx, Ins *i)
{
    i->keep = i->body || is_kept(ctx, i);
}

static void mark_range(Module *m, Region *body, const bool *keep)
{
    for (size_t n = 0; n < body->ins.n; n++) {
        Ins *i = body->ins.data[n];
        i->keep = i->body || (i->nout && keep[i->out[0]]);
        if (i->body)
            mark_range(m, i->body, keep);
    }
}

/* ---- ranges ---------------------------------------------------------------------------------- */

typedef struct Splitter {
    Module *m;
    const Ins *loop;
    Builder b;   /* where the loop was */
    bool counts; /* the body asks which iteration it is in */
} Splitter;

static Value integer(Builder *b, int64_t n)
{
    return build_const(b, DT_i32, (double)n);
}

/* Another way to see a value, called as it is. */
static Value seen(Splitter *s, Op op, const Attrs *a, Value of)
{
    Value v = build(&s->b, op, a, 1, &of);
    s->m->values.data[v].name = s->m->values.data[of].name;
    return v;
}

/* A loop over segments around a copy of the loop; its results are those of the copy. */
static void segmented(Splitter *s, const KeepRange *range, int64_t first, const Value *in,
                      Value *out)
{
    Module *m = s->m;
    const Ins *loop = s->loop;
    uint32_t carried = (uint32_t)loop->attrs.carried;
    const char *name = name_str(m->names, loop->attrs.dim.name);
    Attrs halves = {.dim = {loop->attrs.dim.name, range->segment},
                    .to = {name_intern(m->names, arena_printf(m->arena, "%s.segments", name)),
                           range->iterations / range->segment}};
    Builder b = s->b;
    b.region = region_new(m, s->b.region);
    Value *outside = NEW_ARRAY(m->arena, Value, loop->nin);
    Value *inside = NEW_ARRAY(m->arena, Value, loop->nin);
    for (uint32_t k = 0; k < loop->nin; k++) {
        outside[k] = k < carried ? in[k] : seen(s, OP_split, &halves, in[k]);
        Type t = *type_of(m, outside[k]);
        inside[k] = region_arg(m, b.region, k < carried ? t : type_without(&t, halves.to.name),
                               m->values.data[in[k]].name);
    }
    Value index =
        region_arg(m, b.region, (Type){.dtype = DT_i32}, name_intern(m->names, "segment"));
    Value number = 0;
    if (s->counts)
        number = build2(&b, OP_add, build2(&b, OP_mul, index, integer(&b, range->segment)),
                        integer(&b, first));
    Ins *copy = repeat_part(&b, loop, range->segment, inside, number);
    copy->keep = false;
    Type *types = NEW_ARRAY(m->arena, Type, loop->nout);
    for (uint32_t k = 0; k < loop->nout; k++) {
        Type t = *type_of(m, copy->out[k]);
        types[k] = k < carried ? t : type_stacked(&t, halves.to);
        vec_push(m->arena, &b.region->results, copy->out[k]);
    }
    Attrs a = {.dim = halves.to, .carried = carried, .reverse = loop->attrs.reverse};
    Ins *outer = build_typed(&s->b, OP_repeat, &a, (int)loop->nin, outside, (int)loop->nout, types,
                             b.region);
    outer->keep = true;
    outer->attrs.here = range->here;
    for (uint32_t k = 0; k < loop->nout; k++)
        out[k] = k < carried ? outer->out[k] : build(&s->b, OP_merge, &halves, 1, &outer->out[k]);
}

/* One range: `in` has the carried values as they are by now, and becomes what they are after it;
 * parts: per stacked result, what it gives. */
static void one_range(Splitter *s, const KeepRange *range, int64_t first, Value *in, Value *parts)
{
    const Ins *loop = s->loop;
    uint32_t carried = (uint32_t)loop->attrs.carried;
    Value *here = NEW_ARRAY(s->m->arena, Value, loop->nin);
    Value *out = NEW_ARRAY(s->m->arena, Value, loop->nout + 1);
    mark_range(s->m, loop->body,
               range->keep); /* copies have the marks of what they are copied from */
    Attrs window = {.along = {loop->attrs.dim.name, range->iterations}, .at = first};
    for (uint32_t k = 0; k < loop->nin; k++)
        here[k] = k < carried || range->iterations == loop->attrs.dim.size
                      ? in[k]
                      : seen(s, OP_window, &window, in[k]);
    if (range->segment > 1) {
        segmented(s, range, first, here, out);
    } else {
        Ins *copy = repeat_part(&s->b, loop, range->iterations, here,
                                s->counts ? integer(&s->b, first) : 0);
        copy->keep = true;
        copy->attrs.here = range->here;
        memcpy(out, copy->out, loop->nout * sizeof *out);
    }
    memcpy(in, out, carried * sizeof *in);
    memcpy(parts, out + carried, (loop->nout - carried) * sizeof *parts);
}

/* The ranges of a loop, at the builder's end, instead of it; results[] are the values for its own.
 */
static void split_loop(Splitter *s, const KeepRanges *ranges, Value *results)
{
    Module *m = s->m;
    const Ins *loop = s->loop;
    uint32_t carried = (uint32_t)loop->attrs.carried, stacked = loop->nout - carried;
    Value *in = NEW_ARRAY(m->arena, Value, loop->nin + 1);
    Value *parts = NEW_ARRAY(m->arena, Value, ranges->n * stacked + 1);
    int64_t done = 0, n = loop->attrs.dim.size;
    memcpy(in, loop->in, loop->nin * sizeof *in);
    for (size_t k = 0; k < ranges->n; k++) {
        const KeepRange *range = &ranges->data[k];
        int64_t first = loop->attrs.reverse ? n - done - range->iterations : done;
        size_t place = loop->attrs.reverse ? ranges->n - 1 - k : k;
        one_range(s, range, first, in, parts + place * stacked);
        done += range->iterations;
    }
    memcpy(results, in, carried * sizeof *in);
    for (uint32_t k = 0; k < stacked; k++) {
        Value *all = NEW_ARRAY(m->arena, Value, ranges->n);
        Attrs a = {.dim = loop->attrs.dim};
        for (size_t i = 0; i < ranges->n; i++)
            all[i] = parts[i * stacked + k];
        results[carried + k] =
            ranges->n == 1 ? all[0] : build(&s->b, OP_join, &a, (int)ranges->n, all);
    }
}

static PassStatus split_loops(Job *j, Region *r)
{
    Module *m = j->m;
    const KeepPlan *plan = m->layout.plan;
    Ins **old = r->ins.data;
    size_t n = r->ins.n, loops = 0, values = m->values.n;
    Value *map = NEW_ARRAY(j->tmp, Value, values);
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        const KeepRanges *ranges =
            i->op == OP_repeat && loops < plan->loops.n ? &plan->loops.data[loops++] : NULL;
        if (!ranges || !ranges->n) {
            vec_push(m->arena, &r->ins, i);
            continue;
        }
        int64_t iterations = 0;
        for (size_t x = 0; x < ranges->n; x++)
            iterations += ranges->data[x].iterations;
        if (iterations != i->attrs.dim.size)
            return pass_bug(j, i, "ranges of %lld iterations", (long long)iterations);
        if (ranges->n == 1 && ranges->data[0].segment == 1) {
            mark_range(m, i->body, ranges->data[0].keep);
            i->attrs.here = ranges->data[0].here;
            vec_push(m->arena, &r->ins, i);
            continue;
        }
        for (uint32_t x = 0; x < i->nin; x++)
            if (i->in[x] < values && map[i->in[x]])
                i->in[x] = map[i->in[x]];
        Splitter s = {.m = m, .loop = i, .b = builder_at(m, r, i), .counts = repeat_counts(m, i)};
        Value *results = NEW_ARRAY(j->tmp, Value, i->nout);
        split_loop(&s, ranges, results);
        for (uint32_t x = 0; x < i->nout; x++)
            map[i->out[x]] = results[x];
    }
    Value *all = NEW_ARRAY(j->tmp, Value, m->values.n);
    memcpy(all, map, values * sizeof *map);
    ir_replace(r, all);
    return PASS_ok;
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct Called {
    const Module *m;
    Arena *a;
    VEC(const char *) names; /* of what repeats compute, each once */
} Called;

static void note_called(void *ctx, Ins *i)
{
    Called *c = ctx;
    const char *name = ins_called(c->m, i);
    for (size_t k = 0; k < c->names.n; k++)
        if (!*name || strcmp(c->names.data[k], name) == 0)
            return;
    vec_push(c->a, &c->names, name);
}

/* Each name of `recompute keep` is that of something. */
static bool names_known(Job *j, const Fn *fn)
{
    Module *m = j->m;
    Called c = {.m = m, .a = j->tmp};
    bool known = true;
    for (size_t n = 0; n < fn->body->ins.n; n++)
        if (fn->body->ins.data[n]->op == OP_repeat)
            each_ins(fn->body->ins.data[n]->body, note_called, &c);
    for (size_t k = 0; k < m->layout.keep.n; k++) {
        const char *name = name_str(m->names, m->layout.keep.data[k].name);
        size_t n = 0;
        while (n < c.names.n && strcmp(c.names.data[n], name) != 0)
            n++;
        if (n < c.names.n)
            continue;
        const char *near = name_nearest(name, c.names.data, c.names.n);
        diag_error(m->diag, m->layout.keep.data[k].span, 523,
                   "no repeat computes anything called '%s'", name);
        if (near)
            diag_remedy(m->diag, &(Remedy){1, {{m->layout.keep.data[k].span, near}}},
                        "did you mean '%s'?", near);
        known = false;
    }
    return known;
}

/* ---- the pass -------------------------------------------------------------------------------- */

PassStatus pass_recompute(Job *j)
{
    Module *m = j->m;
    Fn *fn = module_fn(m, "train");
    if (fn && m->layout.recompute == RECOMPUTE_keep && !names_known(j, fn))
        return PASS_error;
    bool usual = m->layout.recompute == RECOMPUTE_auto && !m->layout.plan;
    for (size_t n = 0, loop = 0; fn && n < fn->body->ins.n; n++) {
        Ins *i = fn->body->ins.data[n];
        if (i->op != OP_repeat)
            continue;
        const bool *keep = usual ? keep_default(m, (int)loop++, j->tmp) : NULL;
        if (keep)
            mark_range(m, i->body, keep);
        else
            each_ins(i->body, mark, m);
        each_ins(i->body, set_exact, NULL);
        i->keep = true;
    }
    return fn && m->layout.plan ? split_loops(j, fn->body) : PASS_ok;
}
