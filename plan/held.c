/* held.c - what lies in memory at the guard of a step, and is read behind it: gradients, above all.
 * The runtime hashes it there (--health). An operand that is not dense, or stands in more than one
 * loop, is left out. */
#include "plan/held.h"

static bool is_dense(const Operand *o)
{
    int64_t stride = 1;
    for (int i = o->type.rank - 1; i >= 0; i--) {
        if (o->type.dims[i].size > 1 && o->stride[i] != stride)
            return false;
        stride *= o->type.dims[i].size;
    }
    return true;
}

static bool is_held(const Plan *p, const Operand *o, size_t guard)
{
    const Buffer *b = &p->buffers.data[o->at.buffer];
    return o->read && !b->persistent && b->program == 0 && b->first >= 0 &&
           (size_t)b->first < guard && b->owner != OWN_io && o->at.nloops <= 1 && is_dense(o);
}

static void add(Arena *a, HeldList *all, mg_held h)
{
    for (size_t i = 0; i < all->n; i++) {
        const mg_held *x = &all->data[i];
        if (x->offset == h.offset && x->bytes == h.bytes && x->n == h.n)
            return;
    }
    vec_push(a, all, h);
}

HeldList plan_held(Arena *a, const Plan *p)
{
    HeldList all = {0};
    const Program *g = p->train;
    size_t guard = 0;
    while (g && guard < g->actions.n && g->actions.data[guard].kind != ACT_guard)
        guard++;
    for (size_t i = guard + 1; g && i < g->actions.n; i++)
        for (int k = 0; k < g->actions.data[i].noperands; k++) {
            const Operand *o = &g->actions.data[i].operand[k];
            if (!is_held(p, o, guard))
                continue;
            const Buffer *b = &p->buffers.data[o->at.buffer];
            const bool loop = o->at.nloops;
            const int64_t bytes = type_elements(&o->type) * dtype_bytes(o->type.dtype);
            add(a, &all,
                (mg_held){.offset = buffer_address(b) + o->at.offset,
                          .bytes = bytes,
                          .n = loop ? g->loops.data[o->at.loop[0].loop].dim.size : 1,
                          .stride = loop ? o->at.loop[0].stride : 0,
                          .at = b->at});
        }
    return all;
}
