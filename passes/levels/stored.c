/* stored.c - on which level of memory the values of a function are stored.
 *
 * Layout.offload says it per class:
 *
 *   state, masters, parameters   tensors: their arguments, and what their updates give
 *   kept                         what a loop over layers stacks and another takes slices of
 *   gradients                    what a loop over layers stacks as the gradient of its parameters
 *
 * From there it follows what a value is seen as, or joined to, and goes round the loops over
 * microbatches. A loop that takes slices of a stacked value takes them where that lies.
 *
 * why layers' alone: what no loop stacks, as the table of tokens, is read by one instruction as a
 * whole, for which it would have to come as a whole; only updates can take it in windows. */
#include "passes/levels/levels.h"
#include "passes/view.h"
#include "passes/walk.h"

/* Of the bytes of an iteration: what is smaller beside the largest kept value is not worth the
 * latency of a transfer. */
enum { SMALL = 16 };

typedef struct Stored {
    Module *m;
    Fn *fn;
    DimList depth;
    bool *sliced; /* per value: a loop over layers takes slices of it */
    bool changed;
} Stored;

DimList levels_depth(const Module *m)
{
    DimList depth = depth_dims(m);
    for (size_t k = 0; k < m->tensors.n; k++)
        for (int d = 0; d < m->tensors.data[k].stacked; d++)
            if (!dims_have(&depth, m->tensors.data[k].type.dims[d].name) && depth.n < MAX_RANK)
                depth.dim[depth.n++] = m->tensors.data[k].type.dims[d];
    return depth;
}

bool levels_stacked(const DimList *depth, const Type *t)
{
    return t->rank && dims_have(depth, t->dims[0].name);
}

static Level level_of(const Module *m, Value v)
{
    return type_of(m, v)->level;
}

/* A value is stored on a level, if it is not yet stored on another. */
static void set(Stored *s, Value v, Level l)
{
    Type *t = &s->m->values.data[v].type;
    if (!l || t->level)
        return;
    t->level = l;
    s->changed = true;
}

/* Is a value an input of the program, or a part of one? */
static bool is_input(const Stored *s, Value v)
{
    const Module *m = s->m;
    for (;;) {
        Value from;
        const Ins *def = m->values.data[v].def;
        if (def && !op_is(def->op, VIEW))
            return false;
        if (def)
            v = def->in[0];
        else if (slice_loop(m, v, &from))
            v = from;
        else
            break;
    }
    const int k = arg_index(m, v);
    return k >= 0 && m->values.data[v].home == s->fn->body && s->fn->args.data[k].role >= ARG_input;
}

/* Does a loop go over layers? One over microbatches takes slices of inputs alone. */
static bool over_layers(const Stored *s, const Ins *i)
{
    bool inputs = true;
    if (i->op != OP_repeat || i->attrs.scan)
        return false;
    for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nin; k++)
        inputs &= is_input(s, i->in[k]);
    return !inputs;
}

static bool over_microbatches(const Stored *s, const Ins *i)
{
    return i->op == OP_repeat && !i->attrs.scan && !over_layers(s, i);
}

/* ---- where it begins ------------------------------------------------------------------------ */

static void mark_arguments(Stored *s)
{
    for (size_t k = 0; k < s->fn->args.n; k++) {
        const FnArg a = s->fn->args.data[k];
        if (a.role <= ARG_state)
            set(s, s->fn->body->args.data[k], s->m->tensors.data[a.tensor].type.level);
    }
}

static void note_slices(void *ctx, Ins *i)
{
    Stored *s = ctx;
    for (uint32_t k = (uint32_t)i->attrs.carried; i->op == OP_repeat && k < i->nin; k++)
        for (Value v = i->in[k];;) {
            s->sliced[v] = true;
            const Ins *def = s->m->values.data[v].def;
            if (!def || !op_is(def->op, VIEW))
                break;
            v = def->in[0];
        }
}

/* Is a stacked value the gradient of what the loop reads of a parameter? It has its dims. */
static bool is_gradient(const Module *m, const Type *t)
{
    for (size_t k = 0; k < m->tensors.n; k++) {
        const Tensor *x = &m->tensors.data[k];
        bool same = !x->slot && x->stacked && x->type.rank == t->rank;
        for (int d = 0; same && d < t->rank; d++)
            same = x->type.dims[d].name == t->dims[d].name &&
                   (d == 0 || x->type.dims[d].size == t->dims[d].size);
        if (same)
            return true;
    }
    return false;
}

static int64_t bytes_per_iteration(const Type *t)
{
    return type_bytes(t) / t->dims[0].size;
}

/* Results of loops over layers, in the regions in which those stand. */
static void mark_results(Stored *s, const Region *r)
{
    const Module *m = s->m;
    const Level *to = m->layout.offload;
    for (size_t n = 0; n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        int64_t largest = 0;
        if (i->op == OP_repeat && over_microbatches(s, i))
            mark_results(s, i->body);
        if (!over_layers(s, i))
            continue;
        for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nout; k++) {
            const int64_t bytes = bytes_per_iteration(type_of(m, i->out[k]));
            largest = s->sliced[i->out[k]] && bytes > largest ? bytes : largest;
        }
        for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nout; k++) {
            const Type *t = type_of(m, i->out[k]);
            if (!dtype_is_float(t->dtype))
                continue;
            if (s->sliced[i->out[k]] && !i->attrs.here && bytes_per_iteration(t) * SMALL >= largest)
                set(s, i->out[k], to[OFFLOAD_kept]);
            else if (!s->sliced[i->out[k]] && is_gradient(m, t))
                set(s, i->out[k], to[OFFLOAD_gradients]);
        }
    }
}

/* ---- what follows --------------------------------------------------------------------------- */

/* The loop over microbatches takes it round: all of its places are on the level that one is. */
static void follow_round(Stored *s, const Ins *i)
{
    for (uint32_t k = 0; k < (uint32_t)i->attrs.carried; k++) {
        const Value all[] = {i->out[k], i->body->results.data[k], i->body->args.data[k], i->in[k]};
        Level l = LEVEL_device;
        for (size_t x = 0; x < sizeof all / sizeof *all; x++)
            l = l ? l : level_of(s->m, all[x]);
        if (!levels_stacked(&s->depth, type_of(s->m, i->out[k])))
            continue;
        set(s, i->out[k], l);
        set(s, i->body->args.data[k], l);
    }
}

static void follow(void *ctx, Ins *i)
{
    Stored *s = ctx;
    const Module *m = s->m;
    if (i->op == OP_repeat && over_microbatches(s, i)) {
        follow_round(s, i);
    } else if (i->op == OP_repeat) {
        for (uint32_t k = (uint32_t)i->attrs.carried; k < i->nin && !i->attrs.scan; k++)
            set(s, i->body->args.data[k], level_of(m, i->in[k]));
    } else if (op_is(i->op, VIEW) || i->op == OP_join) {
        Level l = LEVEL_device;
        for (uint32_t k = 0; k < i->nin; k++)
            l = l ? l : level_of(m, i->in[k]);
        if (levels_stacked(&s->depth, type_of(m, i->in[0])))
            set(s, i->out[0], l);
    }
}

void levels_mark(Module *m, Fn *fn, Arena *tmp)
{
    Stored s = {
        .m = m, .fn = fn, .depth = levels_depth(m), .sliced = NEW_ARRAY(tmp, bool, m->values.n)};
    mark_arguments(&s);
    each_ins(fn->body, note_slices, &s);
    mark_results(&s, fn->body);
    do {
        s.changed = false;
        each_ins(fn->body, follow, &s);
    } while (s.changed);
}
