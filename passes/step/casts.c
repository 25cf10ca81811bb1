/* casts.c - the cast of a stack becomes a stack of casts.
 *
 *   %s: f16[layers, k] = repeat layers {           %s: f32[layers, k] = repeat layers {
 *     give %g                                        %w: f32[k] = cast %g
 *   }                                         ->     give %w
 *   %w: f32[layers, k] = cast %s                   }
 *
 * The gradient of a parameter that was rounded to a half is such a cast. Now each iteration can add
 * its own slice, and there is no stack of halves. A pipeline's stage depends on it: it runs the
 * iterations of its own layers, and the slices of all others are never written. */
#include "passes/step/casts.h"
#include "passes/walk.h"

/* The number of v among what its loop stacks, or -1: no loop stacks v. */
static int stacked_number(const Module *m, Value v)
{
    const Ins *loop = m->values.data[v].def;
    if (!loop || loop->op != OP_repeat)
        return -1;
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nout; k++)
        if (loop->out[k] == v)
            return (int)k;
    return -1;
}

/* Does i become the loop's own? */
static bool moved(Module *m, const Uses *uses, const Region *r, const Ins *i, ValueMap *map)
{
    if (i->op != OP_cast || !i->backward || uses->count[i->in[0]] != 1)
        return false;
    const Value stack = i->in[0];
    const int k = stacked_number(m, stack);
    if (k < 0 || m->values.data[stack].home != r)
        return false;
    Ins *loop = m->values.data[stack].def;
    Value *part = &loop->body->results.data[k];
    const DType to = type_of(m, i->out[0])->dtype;
    Builder b = builder_at(m, loop->body, loop);
    *part = build_cast(&b, *part, to);
    m->values.data[stack].type.dtype = to;
    map_set(m, map, i->out[0], stack);
    return true;
}

static void read_mapped(void *ctx, Value *use)
{
    *use = map_get(ctx, *use);
}

void casts_by_iterations(Module *m, Region *r, Arena *tmp)
{
    const Uses uses = ir_uses(m, r, tmp);
    ValueMap map = {0};
    size_t kept = 0;
    for (size_t n = 0; n < r->ins.n; n++) {
        Ins *i = r->ins.data[n];
        each_use(i, read_mapped, &map);
        if (!moved(m, &uses, r, i, &map))
            r->ins.data[kept++] = i;
    }
    r->ins.n = kept;
    for (size_t k = 0; k < r->results.n; k++)
        r->results.data[k] = map_get(&map, r->results.data[k]);
    for (size_t n = 0; n < r->ins.n; n++)
        if (r->ins.data[n]->op == OP_repeat)
            casts_by_iterations(m, r->ins.data[n]->body, tmp);
}
