/* emulate.c - pass emulate: a device without products of fp8 multiplies halves of the same value.
 *
 *   before:  %p: f32 = dot %q, %r {over=[k]}        (of e4m3 and e5m2)
 *   after:   %p: f32 = dot (cast %q), (cast %r)     (of bf16)
 *
 * Every number of fp8 is one of bf16, and a product of two of them a float. So no number changes
 * but by the order in which floats are added up, which is each product's own in any case.
 *
 * A device with products of fp8 takes matrices of multiples of 16 rows and columns: of a rank's
 * part of a tensor, and of what it sums, too. Others are multiplied in halves there.
 *
 * Operands whose scales are of tiles are rounded here for such a device (round_tiles.c).
 *
 * why here: the last pass that meets products as they were written; the casts then fuse with what
 * rounds an activation to fp8, which is never stored. */
#include "passes/library/tiles.h"
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

/* Elements of t's dims that the result has, and b has not: rows or columns. */
static int64_t side(const Type *t, const Type *b, const Type *result)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) {
        const Name d = t->dims[i].name;
        n *= type_find(result, d) >= 0 && type_find(b, d) < 0 ? t->dims[i].size : 1;
    }
    return n;
}

static bool is_taken(const Module *m, const Ins *dot)
{
    const Type *a = type_of(m, dot->in[0]), *b = type_of(m, dot->in[1]);
    const Type *y = type_of(m, dot->out[0]);
    int64_t sum = 1;
    for (int i = 0; i < dot->attrs.over.n; i++)
        sum *= a->dims[type_find(a, dot->attrs.over.dim[i].name)].size;
    return m->train.fp8_products && sum % FP8_SIDE == 0 && side(a, b, y) % FP8_SIDE == 0 &&
           side(b, a, y) % FP8_SIDE == 0;
}

static void emulate_in(Module *m, Region *r, Rounded *rounded)
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
            emulate_in(m, i->body, rounded);
        for (uint32_t x = 0; i->op == OP_dot && !is_taken(m, i) && x < 2; x++)
            if (dtype_is_fp8(type_of(m, i->in[x])->dtype))
                i->in[x] = half_of(&e, &b, i->in[x]);
        if (i->op != OP_dot || !i->attrs.fp8 || !round_tiles(rounded, &b, i))
            vec_push(m->arena, &r->ins, i);
    }
}

PassStatus pass_emulate(Job *j)
{
    for (size_t f = 0; j->m->train.fp8 && f < j->m->fns.n; f++) {
        Rounded rounded = {.m = j->m, .tmp = j->tmp};
        emulate_in(j->m, j->m->fns.data[f]->body, &rounded);
    }
    return PASS_ok;
}
