/* keep.c - outside loops: what the backward part computes again instead of reading.
 *
 * A forward value that the backward part reads stays in memory from one to the other. If it is
 * cheap and large, and its operands are there at that time anyway, the backward part computes it
 * again just before it needs it. "There anyway" is decided in forward order: arguments, small
 * values, what the backward part reads itself and cannot have cheaper, and what can be computed
 * again from those. */
#include "passes/autodiff/gradient.h"
#include "passes/walk.h"

enum { LARGE = 1 << 16 }; /* elements: a quarter of a megabyte, about what a core's cache holds */

typedef struct Keep {
    Module *m;
    Region *r;
    bool *read;  /* per value: the backward part reads it */
    bool *again; /* ... and computes it again */
    Builder b;   /* where the backward part is being put together */
    ValueMap map;
} Keep;

static void note_read(void *ctx, Value *use)
{
    ((Keep *)ctx)->read[*use] = true;
}

/* The program is still on the whole batch: what counts is what one microbatch has. */
static bool is_large(const Module *m, Value v)
{
    const Type *t = type_of(m, v);
    int64_t n = type_elements(t);
    if (type_find(t, m->batch.name) >= 0)
        n = n / m->batch.size * m->layout.microbatch;
    return n > LARGE;
}

/* The rounded copy of a parameter serves all iterations and both directions. */
static bool is_copy(const Module *m, const Ins *i)
{
    return i->op == OP_cast && !m->values.data[i->in[0]].def &&
           dtype_is_half(type_of(m, i->out[0])->dtype);
}

static void decide(Keep *k, size_t split, Arena *a)
{
    const Module *m = k->m;
    bool *there = NEW_ARRAY(a, bool, m->values.n);
    for (size_t i = 0; i < k->r->args.n; i++)
        there[k->r->args.data[i]] = true;
    for (size_t n = 0; n < split; n++) {
        const Ins *i = k->r->ins.data[n];
        bool can =
            op_is(i->op, CHEAP | POINTWISE) && !i->body && !is_copy(m, i) && !ir_ends_product(m, i);
        for (uint32_t x = 0; x < i->nin; x++)
            can &= there[i->in[x]];
        for (uint32_t x = 0; x < i->nout; x++) {
            bool large = is_large(m, i->out[x]);
            k->again[i->out[x]] = can && large;
            there[i->out[x]] = can || !large || k->read[i->out[x]];
        }
    }
}

static Value again(Keep *k, Value v)
{
    Value known = map_get(&k->map, v);
    if (known != v || !k->again[v])
        return known;
    const Ins *i = k->m->values.data[v].def;
    for (uint32_t x = 0; x < i->nin; x++)
        again(k, i->in[x]);
    Builder b = builder_at(k->m, k->r, i);
    b.backward = b.again = true;
    ir_clone(&b, i, &k->map);
    return map_get(&k->map, v);
}

static void use_again(void *ctx, Value *use)
{
    Keep *k = ctx;
    *use = again(k, *use);
}

void keep_less(Module *m, Region *r, size_t split, Arena *a)
{
    size_t n = m->values.n;
    Keep k = {.m = m, .r = r, .read = NEW_ARRAY(a, bool, n), .again = NEW_ARRAY(a, bool, n)};
    for (size_t i = split; i < r->ins.n; i++)
        each_use(r->ins.data[i], note_read, &k);
    decide(&k, split, a);
    Ins **old = r->ins.data;
    size_t all = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t i = 0; i < all; i++) {
        if (i >= split)
            each_use(old[i], use_again, &k);
        vec_push(m->arena, &r->ins, old[i]);
    }
}
