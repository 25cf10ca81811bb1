/* emulate.c - pass emulate: a device without products of fp8 multiplies halves of the same value.
 *
 *   before:  %p: f32 = dot %q, %r {over=[k]}        (of e4m3 and e5m2)
 *   after:   %p: f32 = dot (cast %q), (cast %r)     (of bf16)
 *
 * Every number of fp8 is one of bf16, and a product of two of them a float. So no number changes
 * but by the order in which floats are added up, which is each product's own in any case.
 *
 * why here: the last pass that meets products as they were written; the casts then fuse with what
 * rounds an activation to fp8, which is never stored. */
#include "passes/passes.h"
#include "passes/walk.h"

typedef struct Emulate {
    Module *m;
    Region *r;
    ValueMap wide; /* of what is fp8, in this region: the half */
} Emulate;

static Value half_of(Emulate *e, Builder *b, Value v)
{
    const Value known = map_get(&e->wide, v);
    if (known != v)
        return known;
    const Value half = build_cast(b, v, e->m->train.half);
    e->m->values.data[half].name = e->m->values.data[v].name;
    map_set(e->m, &e->wide, v, half);
    return half;
}

static void emulate_in(Module *m, Region *r)
{
    Emulate e = {.m = m, .r = r};
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        Builder b = builder_at(m, r, i);
        if (i->op == OP_repeat)
            emulate_in(m, i->body);
        for (uint32_t x = 0; i->op == OP_dot && x < 2; x++)
            if (dtype_is_fp8(type_of(m, i->in[x])->dtype))
                i->in[x] = half_of(&e, &b, i->in[x]);
        vec_push(m->arena, &r->ins, i);
    }
}

PassStatus pass_emulate(Job *j)
{
    for (size_t f = 0; j->m->train.fp8 && f < j->m->fns.n; f++)
        emulate_in(j->m, j->m->fns.data[f]->body);
    return PASS_ok;
}
