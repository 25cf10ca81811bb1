/* precision.c - every number gets the type it is computed in.
 *
 * The front end writes the program in f32, with f64 for losses and other long sums. With
 * `precision f32` that is what is computed. With `precision f64` all of it becomes f64: parameters,
 * state and every value; casts between the two disappear. With bf16 and f16 what is kept and
 * multiplied is rounded: halves.c. */
#include "passes/model/halves.h"
#include "passes/passes.h"
#include "passes/walk.h"

static void widen(Type *t)
{
    if (t->dtype == DT_f32)
        t->dtype = DT_f64;
}

static bool is_identity(const Module *m, const Ins *i)
{
    return i->op == OP_cast && type_equal(type_of(m, i->in[0]), type_of(m, i->out[0]));
}

/* Takes out the casts that change nothing any more. */
static void drop_casts(Module *m, Region *r, ValueMap *map)
{
    size_t kept = 0;
    for (size_t n = 0; n < r->ins.n; n++) {
        Ins *i = r->ins.data[n];
        for (uint32_t k = 0; k < i->nin; k++)
            i->in[k] = map_get(map, i->in[k]);
        if (i->body)
            drop_casts(m, i->body, map);
        if (is_identity(m, i))
            map_set(m, map, i->out[0], i->in[0]);
        else
            r->ins.data[kept++] = i;
    }
    r->ins.n = kept;
    for (size_t n = 0; n < r->results.n; n++)
        r->results.data[n] = map_get(map, r->results.data[n]);
}

PassStatus pass_precision(Job *j)
{
    Module *m = j->m;
    if (m->train.compute == DT_f64) {
        ValueMap map = {0};
        for (size_t v = 1; v < m->values.n; v++)
            widen(&m->values.data[v].type);
        for (size_t t = 0; t < m->tensors.n; t++)
            widen(&m->tensors.data[t].type);
        for (size_t f = 0; f < m->fns.n; f++)
            drop_casts(m, m->fns.data[f]->body, &map);
    } else if (m->train.compute != DT_f32) {
        return pass_bug(j, NULL, "precision %s is refused before this",
                        dtype_name(m->train.compute));
    } else if (m->train.half) {
        halves_module(m, j->tmp);
        halved_caches(m, j->tmp);
        ValueMap map = {0};
        for (size_t f = 0; f < m->fns.n; f++)
            if (module_fn(m, "decode")) /* of rows that caches of halves gave */
                drop_casts(m, m->fns.data[f]->body, &map);
    }
    return PASS_ok;
}
