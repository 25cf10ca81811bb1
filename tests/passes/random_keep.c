/* random_keep.c - ranges, segments and kept values, drawn for each repeat of a program. */
#include "tests/passes/model.h"

/* May the loop be cut into segments? It becomes a loop in a loop, on slices of one more dim. */
static bool may_nest(const Module *m, const Ins *loop)
{
    for (size_t n = 0; n < loop->body->ins.n; n++)
        if (loop->body->ins.data[n]->op == OP_repeat)
            return false;
    for (uint32_t k = (uint32_t)loop->attrs.carried; k < loop->nin; k++)
        if (type_of(m, loop->in[k])->rank == MAX_RANK)
            return false;
    return true;
}

static int64_t draw_divisor(uint64_t *rng, int64_t n)
{
    int64_t d = 1 + (int64_t)draw_int(rng, (int)n);
    while (n % d)
        d--;
    return d;
}

void random_keep(Model *t, uint64_t seed)
{
    uint64_t rng = seed * 977 + 3;
    KeepPlan *plan = NEW(t->a, KeepPlan);
    *plan = (KeepPlan){0};
    for (size_t n = 0; n < t->fn->body->ins.n; n++) {
        const Ins *i = t->fn->body->ins.data[n];
        if (i->op != OP_repeat)
            continue;
        KeepRanges ranges = {0};
        int64_t left = i->attrs.dim.size;
        while (left > 0) {
            int64_t iterations = ranges.n == 7 ? left : 1 + (int64_t)draw_int(&rng, (int)left);
            bool *keep = NEW_ARRAY(t->a, bool, t->m->values.n);
            int share = 1 + (int)draw_int(&rng, 4);
            for (size_t v = 0; v < t->m->values.n; v++)
                keep[v] = draw_int(&rng, share) == 0;
            int64_t segment = may_nest(t->m, i) ? draw_divisor(&rng, iterations) : 1;
            vec_push(t->a, &ranges,
                     ((KeepRange){iterations, segment, keep, NULL, draw_int(&rng, 2) == 0}));
            left -= iterations;
        }
        vec_push(t->a, &plan->loops, ranges);
    }
    t->m->layout.plan = plan;
}
