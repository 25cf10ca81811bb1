/* chunk_sums.c - how a state fades within a chunk, as sums of logarithms.
 *
 * A state that is scaled by a(t) is scaled by exp(l(t) - l(s)) from s to t, where l sums the
 * logarithms of a from the chunk's begin. A difference is taken before the exponential, so nothing
 * overflows where a product of a would underflow. Sums are written as sums, not as products with a
 * triangle: products of halves would round the logarithms. */
#include "passes/model/chunk.h"

#include "passes/model/logs.h"
#include "passes/walk.h"

/* v with the dim s as its innermost. */
static Value s_inside(Chunk *c, Value v)
{
    const Type *was = type_of(c->m, v);
    Type t = type_without(was, c->s.name);
    t.dims[t.rank++] = c->s;
    return build_as(&c->b, v, t);
}

/* The sum of a logarithm over the indices of a chunk up to each, along t. */
static Value sum_upto(Chunk *c, Value log, bool also)
{
    const DType dtype = type_of(c->m, log)->dtype;
    if (!chunk_has(c, log, c->along.name))
        return chunk_times(c, log, chunk_count(c, c->t, also, dtype));
    const Value l = s_inside(c, chunk_cut(c, log, true));
    Type t = *type_of(c->m, l);
    t.dims[t.rank] = t.dims[t.rank - 1];
    t.dims[t.rank - 1] = c->t;
    t.rank++;
    const Value in[] = {chunk_before(c, also), l, build_const(&c->b, dtype, 0)};
    const Value part = build_typed(&c->b, OP_select, NULL, 3, in, 1, &t, NULL)->out[0];
    return build_sum(&c->b, part, &(DimList){.n = 1, .dim = {c->s}});
}

static Value log_of_step(Chunk *c, const Step *s)
{
    return build_log(&c->b, chunk_all(c, s->factor[0]));
}

static Value fade(Chunk *c, const Chain *update, int steps)
{
    Value sum[2] = {0}, r = 0; /* of those up to the place, and of those behind it */
    for (int k = 0; k < update->n; k++)
        if (update->step[k]->scales)
            sum[k >= steps] = chunk_plus(c, sum[k >= steps], log_of_step(c, update->step[k]));
    for (int behind = 0; behind < 2; behind++)
        if (sum[behind])
            r = chunk_plus(c, r, sum_upto(c, sum[behind], !behind));
    return r;
}

/* A state's fading is the same for all that read it: computed once, and differentiated once. */
Value chunk_fade(Chunk *c, const Chain *update, int steps, bool from)
{
    Value *known = c->fade[update->state][steps];
    if (!known[0] && (known[0] = fade(c, update, steps)))
        known[1] = chunk_renamed(c, known[0], c->t, c->s);
    return known[from];
}

static Value fade_all(Chunk *c, const Chain *update)
{
    Value log = 0;
    for (int k = 0; k < update->n; k++)
        if (update->step[k]->scales)
            log = chunk_plus(c, log, log_of_step(c, update->step[k]));
    if (!log)
        return 0;
    if (chunk_has(c, log, c->along.name))
        return build_sum(&c->b, s_inside(c, chunk_cut(c, log, true)),
                         &(DimList){.n = 1, .dim = {c->s}});
    return chunk_times(c, log, build_const(&c->b, type_of(c->m, log)->dtype, (double)c->t.size));
}

Value chunk_fade_all(Chunk *c, const Chain *update)
{
    Value *known = &c->fade_all[update->state];
    if (!*known)
        *known = fade_all(c, update);
    return *known;
}
