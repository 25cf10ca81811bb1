/* licm.c - tables that depend on nothing leave the loops; part of simplify.
 *
 * The angles of a rotary embedding are the same in every layer and in both directions. A value that
 * is computed from positions and constants alone, at some cost an element, is computed once at the
 * start of the function; `share` then merges the copies. Cheap ones (a mask) stay where they are
 * used, for a kernel to compute on the way. */
#include "passes/autodiff/gradient.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

enum {
    WORTH = 4,        /* flops an element from which on reading is taken to be cheaper */
    LARGEST = 1 << 22 /* elements of a table */
};

typedef struct Hoist {
    Module *m;
    Region *top;
    const bool *leaf;
    double *flops; /* per leaf value: of its whole chain, an element */
    ValueMap map;
    bool changed;
} Hoist;

static void count_flops(void *ctx, Ins *i)
{
    Hoist *h = ctx;
    if (!i->nout || !h->leaf[i->out[0]])
        return;
    double flops = op_is(i->op, POINTWISE) ? op_info[i->op].flops : 0;
    for (uint32_t k = 0; k < i->nin; k++)
        flops += h->flops[i->in[k]];
    h->flops[i->out[0]] = flops;
}

/* v, computed before everything else at the top: where it is computed there already, perhaps later,
 * `share` keeps the first. */
static Value at_top(Hoist *h, Value v)
{
    if (map_get(&h->map, v) != v)
        return map_get(&h->map, v);
    const Ins *i = h->m->values.data[v].def;
    for (uint32_t k = 0; k < i->nin; k++)
        at_top(h, i->in[k]);
    Builder b = {.m = h->m, .region = h->top};
    ir_clone(&b, i, &h->map)->backward = false;
    return map_get(&h->map, v);
}

static bool is_table(const Hoist *h, Value v)
{
    const Type *t = type_of(h->m, v);
    return h->leaf[v] && h->flops[v] >= WORTH && t->rank && type_elements(t) <= LARGEST;
}

static void hoist_tables(void *ctx, Ins *i)
{
    Hoist *h = ctx;
    for (uint32_t k = 0; k < i->nout; k++)
        if (i->home != h->top && is_table(h, i->out[k]))
            h->changed |= at_top(h, i->out[k]) != 0;
}

static void use_table(void *ctx, Value *use)
{
    const Hoist *h = ctx;
    Value v = *use;
    if (is_table(h, v)) /* not what it is made from: a kernel makes its own positions */
        *use = map_get(&h->map, v);
}

bool simplify_licm(Module *m, Fn *fn, Arena *a)
{
    Region *top = fn->body;
    Hoist h = {.m = m,
               .top = top,
               .leaf = activity_leaf(m, top, a),
               .flops = NEW_ARRAY(a, double, m->values.n)};
    each_ins(top, count_flops, &h);
    Ins **old = top->ins.data;
    size_t n = top->ins.n;
    top->ins.data = NULL;
    top->ins.n = top->ins.cap = 0;
    for (size_t k = 0; k < n; k++)
        if (old[k]->op == OP_repeat)
            each_ins(old[k]->body, hoist_tables, &h);
    for (size_t k = 0; k < n; k++) {
        if (old[k]->op == OP_repeat)
            each_use(old[k], use_table, &h);
        vec_push(m->arena, &top->ins, old[k]);
    }
    return h.changed;
}
